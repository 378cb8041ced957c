// SPDX-License-Identifier: Apache-2.0

/* One or more endless TCP flows over one bottleneck, simulated packet by packet with ns-3 (3.37).
 *
 *     sender 0 ──┐                                        ┌── receiver 0
 *     sender 1 ──┤ router ══ rate, RTT, loss, queue ══ router ├── receiver 1
 *
 * A flow for each MTU of --mtus; its segments are 52 bytes less (IPv4, TCP, timestamps). Prints a line of JSON for
 * each sample: the time, and of each flow the bytes that have arrived and the congestion window in bytes. What
 * that means, and whether a flow has stalled, is for simulation.py to say. */
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-layout-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <sstream>
#include <vector>

using namespace ns3;

namespace {

const uint32_t HEADERS = 52;
const uint16_t PORT = 5001;

struct Flow {
    Ptr<Socket> sender;
    Ptr<PacketSink> receiver;
    uint32_t window = 0; // bytes
};

void fill(Ptr<Socket> socket, uint32_t) {
    for (uint32_t free = socket->GetTxAvailable(); free > 0; free = socket->GetTxAvailable())
        if (socket->Send(Create<Packet>(std::min(free, 1u << 16))) < 0)
            return; // it asks again when there is room
}

void sample(const std::vector<Flow> *flows, Time interval) {
    std::printf("{\"time\": %.6f, \"received\": [", Simulator::Now().GetSeconds());
    for (size_t i = 0; i < flows->size(); i++)
        std::printf("%s%llu", i ? ", " : "", (unsigned long long)(*flows)[i].receiver->GetTotalRx());
    std::printf("], \"window\": [");
    for (size_t i = 0; i < flows->size(); i++)
        std::printf("%s%u", i ? ", " : "", (*flows)[i].window);
    std::printf("]}\n");
    Simulator::Schedule(interval, &sample, flows, interval);
}

void dropNext(Ptr<NetDevice> device) {
    Ptr<ReceiveListErrorModel> one = CreateObject<ReceiveListErrorModel>();
    one->SetList({0});
    device->SetAttribute("ReceiveErrorModel", PointerValue(one));
}

void setDefaults(const std::string &control, uint32_t buffer, uint32_t seed) {
    RngSeedManager::SetRun(seed);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::Tcp" + control));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200))); // as Linux has it
    // With delayed ACKs a flow that has timed out can stay at a window of one segment for good.
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
}

PointToPointHelper link(double rate, double delay, uint32_t mtu, uint32_t queue) {
    PointToPointHelper made;
    made.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(rate))));
    made.SetDeviceAttribute("Mtu", UintegerValue(mtu));
    made.SetChannelAttribute("Delay", TimeValue(Seconds(delay)));
    made.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, queue)));
    return made;
}

} // namespace

int main(int count, char **arguments) {
    double rate = 1e9, rtt = 0.01, loss = 0, seconds = 10, every = 0.1, drop = 0;
    std::string mtus = "1500", control = "LinuxReno";
    uint32_t window = 10, threshold = 0, queue = 0, buffer = 0, seed = 1;
    CommandLine line;
    line.AddValue("rate", "bit/s of the bottleneck", rate);
    line.AddValue("rtt", "s, without queueing", rtt);
    line.AddValue("loss", "share of packets lost at random on their way to the receivers", loss);
    line.AddValue("mtus", "bytes, one for each flow, with commas", mtus);
    line.AddValue("control", "congestion control: LinuxReno or Cubic", control);
    line.AddValue("seconds", "s to simulate", seconds);
    line.AddValue("every", "s between samples", every);
    line.AddValue("drop", "s at which one packet is lost; 0: none", drop);
    line.AddValue("window", "segments of the first window", window);
    line.AddValue("threshold", "segments at which slow start ends at first; 0: with the first loss", threshold);
    line.AddValue("queue", "bytes of the queue before the bottleneck", queue);
    line.AddValue("buffer", "bytes of a socket's buffers", buffer);
    line.AddValue("seed", "of the random losses", seed);
    line.Parse(count, arguments);
    setDefaults(control, buffer, seed);

    std::vector<uint32_t> sizes;
    std::stringstream list(mtus);
    for (std::string one; std::getline(list, one, ',');)
        sizes.push_back(std::stoul(one));
    const uint32_t largest = *std::max_element(sizes.begin(), sizes.end());
    // Only the bottleneck may lose: the links to it are faster, and hold every window.
    PointToPointHelper side = link(10 * rate, 1e-7, largest, 2 * buffer);
    PointToPointHelper middle = link(rate, rtt / 2, largest, queue);
    PointToPointDumbbellHelper net(sizes.size(), side, sizes.size(), side, middle);
    net.InstallStack(InternetStackHelper());
    net.AssignIpv4Addresses({"10.1.0.0", "255.255.255.0"}, {"10.2.0.0", "255.255.255.0"}, {"10.3.0.0", "255.255.255.0"});
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    for (uint32_t i = 0; i < NodeList::GetNNodes(); i++) // queues are those of the devices, not fq_codel before them
        for (uint32_t k = 0; k < NodeList::GetNode(i)->GetNDevices(); k++)
            if (NodeList::GetNode(i)->GetDevice(k)->GetObject<NetDeviceQueueInterface>())
                TrafficControlHelper().Uninstall(NodeList::GetNode(i)->GetDevice(k));

    Ptr<NetDevice> out = net.GetRight()->GetDevice(0);
    if (loss > 0) {
        Ptr<RateErrorModel> random = CreateObject<RateErrorModel>();
        random->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        random->SetRate(loss);
        out->SetAttribute("ReceiveErrorModel", PointerValue(random));
    }
    if (drop > 0)
        Simulator::Schedule(Seconds(drop), &dropNext, out);

    std::vector<Flow> flows(sizes.size());
    for (uint32_t i = 0; i < flows.size(); i++) {
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
        flows[i].receiver = DynamicCast<PacketSink>(sink.Install(net.GetRight(i)).Get(0));
        Ptr<Socket> socket = Socket::CreateSocket(net.GetLeft(i), TcpSocketFactory::GetTypeId());
        const uint32_t segment = sizes[i] - HEADERS;
        socket->SetAttribute("SegmentSize", UintegerValue(segment));
        socket->SetAttribute("InitialCwnd", UintegerValue(window));
        if (threshold)
            socket->SetAttribute("InitialSlowStartThreshold", UintegerValue(threshold * segment));
        uint32_t *seen = &flows[i].window;
        socket->TraceConnectWithoutContext(
            "CongestionWindow", Callback<void, uint32_t, uint32_t>([seen](uint32_t, uint32_t now) { *seen = now; }));
        socket->SetSendCallback(MakeCallback(&fill));
        // Not at once: packets that leave in step lose in step.
        Simulator::Schedule(MilliSeconds(i), [socket, to = net.GetRightIpv4Address(i)] {
            socket->Connect(InetSocketAddress(to, PORT));
        });
        flows[i].sender = socket;
    }
    Simulator::Schedule(Seconds(every), &sample, &flows, Seconds(every));
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    Simulator::Destroy();
    return 0;
}
