"""Settings of the whole suite: CPU, two devices, strict shapes, a cache of compiled programs of its own."""

import os
import tempfile

# Tests marked gpu: WANDERLUST_TEST_PLATFORMS=cuda,cpu python -m pytest -m gpu
os.environ["JAX_PLATFORMS"] = os.environ.get("WANDERLUST_TEST_PLATFORMS", "cpu")
_cache = tempfile.TemporaryDirectory(prefix="wanderlust-tests-")
os.environ["WANDERLUST_CACHE"] = _cache.name

import jax  # noqa: E402

jax.config.update("jax_num_cpu_devices", 2)  # so that seeds are spread over devices
jax.config.update("jax_numpy_rank_promotion", "raise")
# Compilation is most of the suite's time, and many tests compile the same program again. Optax needs standard dtype
# promotion, so that one stays as it is.
jax.config.update("jax_compilation_cache_dir", _cache.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def pytest_sessionfinish() -> None:
    _cache.cleanup()
