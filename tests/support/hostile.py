# SPDX-License-Identifier: Apache-2.0
"""The environment of a stranger: every setting in it is meant for other programs than those of a sweep."""

import os
from collections.abc import Sequence
from pathlib import Path

BAD_RC = "text.usetex: True\nsavefig.dpi: 30\naxes.grid: True\nfont.size: 30\nsvg.fonttype: none\n"
GARBAGE = "raise SystemExit('of the user')\n"
KERNEL = '{"argv": ["/bin/false", "{connection_file}"], "display_name": "mine", "language": "python"}'
HOME = {
    ".curlrc": 'proxy = http://127.0.0.1:9\nheader = "X: y"\n',
    ".netrc": "default login a password b\n",
    ".gitconfig": "garbage",
    ".xrootd/client.conf": "ConnectionRetry = 0\nStreamTimeout = 1\n",
    ".globus/usercert.pem": "garbage",
    ".globus/userkey.pem": "garbage",
    ".config/matplotlib/matplotlibrc": BAD_RC,
    ".jupyter/jupyter_config.py": GARBAGE,
    ".ipython/profile_default/startup/00.py": GARBAGE,
    ".ipython/profile_default/ipython_kernel_config.py": "c.InlineBackend.figure_formats = {'svg'}\n",
    ".local/share/jupyter/kernels/python3/kernel.json": KERNEL,
    ".local/share/jupyter/nbconvert/templates/lab/index.html.j2": "of the user",
    "modules/gfal2.py": GARBAGE,
}
NOWHERE = (
    *("BEARER_TOKEN_FILE", "X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY", "X509_CERT_DIR"),
    *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CURL_HOME", "CURL_CA_BUNDLE"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "GFAL_CONFIG_DIR", "GFAL_PLUGIN_DIR", "GIT_DIR"),
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "XRD_PLUGINCONFDIR", "MPLCONFIGDIR", "JUPYTER_RUNTIME_DIR"),
    *("PYTHONSTARTUP", "PYTHONUSERBASE", "C_INCLUDE_PATH", "GLOBUS_LOCATION"),
)


SETTINGS = """
BEARER_TOKEN=of-the-user XrdSecPROTOCOL=gsi XRD_CONNECTIONWINDOW=0 LC_ALL=tr_TR.ISO-8859-9 LANGUAGE=de MPLBACKEND=TkAgg
TZ=Asia/Kathmandu TAR_OPTIONS=--of-the-user POSIXLY_CORRECT=1 SOURCE_DATE_EPOCH=1 CFLAGS=--of-the-user
"""


def environment(folder: Path) -> dict[str, str]:
    """The environment, with the files that it names in a folder."""
    home, long = folder / "home", folder / ("long" * 25)
    for name, text in HOME.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    long.mkdir(exist_ok=True)
    proxies = ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "ftp_proxy")
    return {
        **os.environ,
        **dict.fromkeys(NOWHERE, "/proc/of-the-user"),
        **dict.fromkeys(proxies, "http://127.0.0.1:9"),
        "HOME": str(home),
        "TMPDIR": str(long),
        "PYTHONPATH": str(home / "modules"),
        "JUPYTER_PATH": str(home / ".local/share/jupyter"),
        "JUPYTER_CONFIG_DIR": str(home / ".jupyter"),
        "IPYTHONDIR": str(home / ".ipython"),
        "MATPLOTLIBRC": str(home / ".config/matplotlib/matplotlibrc"),
        **dict(setting.split("=", 1) for setting in SETTINGS.split()),
    }


def machine(folder: Path, kept: Sequence[Path], command: Sequence[str]) -> list[str]:
    """A command line that runs a command on a machine that has no known name, and garbage for credentials in /tmp.

    Others see another /tmp; of it `kept` stay where they are.
    """
    script = f"""
        umask 077; hostname 3f2a91c0d7e4; new={folder}/tmp; mkdir -p $new
        for path in {" ".join(f"{path}" for path in kept if path.is_relative_to("/tmp"))}; do
            mkdir -p $new/${{path#/tmp/}}; mount --rbind $path $new/${{path#/tmp/}}
        done
        mount --rbind $new /tmp; chmod 1777 /tmp; umask 077
        echo garbage >/tmp/x509up_u0; echo garbage >/tmp/bt_u0; exec "$@"
    """
    return ["unshare", "--mount", "--uts", "--propagation", "private", "sh", "-ec", script, "sh", *command]
