"""The tools that move the bytes, by the name that a sweep gives them. A new tool is a file and a line here."""

from __future__ import annotations

from tpcsweep.tools.base import Credentials, Place, Service, Tool, Transfer
from tpcsweep.tools.curl import Curl
from tpcsweep.tools.davix_get import DavixGet
from tpcsweep.tools.davix_put import DavixPut
from tpcsweep.tools.gfal_copy import GfalCopy
from tpcsweep.tools.globus_url_copy import GlobusUrlCopy
from tpcsweep.tools.iperf3 import Iperf3
from tpcsweep.tools.xrdcp import Xrdcp
from tpcsweep.tools.xrdcp_direct import XrdcpDirect

__all__ = ["TOOLS", "Credentials", "Place", "Service", "Tool", "Transfer"]

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        GfalCopy(),
        Curl(),
        DavixPut(),
        DavixGet(),
        Xrdcp(),
        XrdcpDirect(),
        GlobusUrlCopy(),
        Iperf3(),
    )
}
