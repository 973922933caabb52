"""A self-signed certificate for the loopback names of this machine."""

import subprocess
from pathlib import Path


def certificate_in(folder: Path) -> tuple[Path, Path]:
    """Create a certificate and its key; return the paths of both."""
    folder.mkdir(parents=True, exist_ok=True)
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command.split(), *names, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key
