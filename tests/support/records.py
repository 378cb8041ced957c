# SPDX-License-Identifier: Apache-2.0
"""What XRootD's monitoring sends of third-party copies."""

import json

GSTREAM = b'"gs":{"type":"P","tbeg":1795289336,"tend":1795289336}'
HEADER = b'{"code":"g","pseq":  2,"stod":1795289330,"sid":1,%b}' % GSTREAM
TIMES = {"Beg": "2026-11-21T19:28:43.60931Z", "End": "2026-11-21T19:28:44.260000Z"}
RECORD = {
    "TPC": "http",
    "Client": "anon.0:23@[::10.0.0.1]",
    "Xeq": {**TIMES, "RC": 0, "Strm": 4, "Type": "pull", "IPv": 4},
    "Src": "https://10.88.1.1:8080/data/sparse.1024",
    "Dst": "http://host:8080//data/c7.3.12?authz=Bearer%20MDAxabc",
    "Size": 1024,
}


def datagram(*records: object) -> bytes:
    return b"\n".join([HEADER, *(json.dumps(record).encode() for record in records)]) + b"\0"
