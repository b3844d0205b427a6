"""What the network benchmarks share: flags of the compiler, set before JAX is imported, and a record of the machine."""

import os
import platform
import sys
from importlib.metadata import version

# Small batched products: cuBLAS runs them well, and trying Triton kernels for each would take most of the compilation.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false")


def about(script: str, *flags: str) -> dict:
    """Command, versions and machine."""
    import jax

    return {
        "command": " ".join(["PYTHONPATH=src python", f"benchmarks/{script}.py", "--data FOLDER", *flags]),
        "machine": {"device": jax.devices()[0].device_kind, "cpu": platform.machine(), "cores": os.cpu_count()},
        "versions": {"python": sys.version.split()[0], **{p: version(p) for p in ("jax", "optax", "numpy")}},
        "flags": os.environ["XLA_FLAGS"],
    }
