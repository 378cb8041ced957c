# SPDX-License-Identifier: Apache-2.0
"""Transfer tools by their names in sweeps. To add a tool, add a file and a line here."""

from tpcsweep.measuring.tools.curl import Curl
from tpcsweep.measuring.tools.gfal import DavixGet, DavixPut, Gfal2, GfalCopy
from tpcsweep.measuring.tools.globus_url_copy import GlobusUrlCopy
from tpcsweep.measuring.tools.iperf3 import Iperf3
from tpcsweep.measuring.tools.native import Native
from tpcsweep.measuring.tools.tool import Credentials, Place, Program, Service, Tool, Transfer, Worker
from tpcsweep.measuring.tools.xrdcp import Xrdcp, XrdcpDirect

__all__ = ["TOOLS", "Credentials", "Place", "Program", "Service", "Tool", "Transfer", "Worker"]

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        GfalCopy(),
        Curl(),
        Gfal2(),
        Native(),
        DavixPut(),
        DavixGet(),
        Xrdcp(),
        XrdcpDirect(),
        GlobusUrlCopy(),
        Iperf3(),
    )
}
