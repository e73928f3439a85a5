"""The fixed work of the reference loops, as PTX: the driver compiles it for whatever GPU is there."""

from __future__ import annotations

from typing import Final

WORK_VERSION: Final = 1
"""Raised when anything here changes what a loop does: times of different versions are not comparable."""

COMPUTE_KERNEL: Final = "cctrace_fma"
COPY_KERNEL: Final = "cctrace_copy"
EMPTY_KERNEL: Final = "cctrace_empty"

COMPUTE_THREADS: Final = 256
COMPUTE_BLOCKS_PER_SM: Final = 4
"""1024 threads per multiprocessor: eight warps for each scheduler, with four independent chains each. That
hides the latency of a multiply-add everywhere, and all blocks are resident at once."""
_CHAINS: Final = 4
_CHAIN_LENGTH: Final = 32
COMPUTE_ROUNDS: Final = 8192
FMA_PER_THREAD: Final = _CHAINS * _CHAIN_LENGTH * COMPUTE_ROUNDS
"""4.3 ms at 1.98 GHz and 128 multiply-adds a cycle: the launch toll of a confidential GPU, about 12 µs, is
0.3 % of it, far below what is compared."""

COPY_THREADS: Final = 256
COPY_BLOCKS_PER_SM: Final = 8
COPY_BYTES: Final = 256 << 20
"""Size of the copied buffer: well above every level-2 cache (126 MB on B200)."""
COPY_MIN_BYTES: Final = 128 << 20
"""With less free memory the copy would run in the cache and is not measured."""
COPY_PASSES: Final = 32
"""So often one run copies the buffer: 17 GB read and written, 4 ms on an H200, for the same reason as
above."""
VECTOR_BYTES: Final = 16
VECTORS_IN_FLIGHT: Final = 4
"""Loads that each thread issues before it stores: enough bytes in flight to fill the memory's bandwidth."""

_HEAD: Final = """
.version 7.0
.target sm_52
.address_size 64
"""

_EMPTY: Final = f"""
.visible .entry {EMPTY_KERNEL}()
{{
  ret;
}}
"""


def _compute() -> str:
    """Runs x → x · factor + addend in four chains; the result is stored only if it is one that cannot be."""
    step = "\n".join(f"  fma.rn.f32 %x{chain}, %x{chain}, %factor, %addend;" for chain in range(_CHAINS))
    chain = "\n".join([step] * _CHAIN_LENGTH)
    begin = "\n".join(f"  add.f32 %x{chain}, %first, 0f3F{chain}00000;" for chain in range(_CHAINS))
    total = "\n".join(f"  add.f32 %first, %first, %x{chain};" for chain in range(_CHAINS))
    return f"""
.visible .entry {COMPUTE_KERNEL}(.param .u64 p_out, .param .u32 p_rounds, .param .f32 p_factor,
                                 .param .f32 p_addend)
{{
  .reg .pred %p;
  .reg .b32 %left, %thread;
  .reg .b64 %out;
  .reg .f32 %x<{_CHAINS}>, %first, %factor, %addend;
  ld.param.u64 %out, [p_out];
  ld.param.u32 %left, [p_rounds];
  ld.param.f32 %factor, [p_factor];
  ld.param.f32 %addend, [p_addend];
  mov.u32 %thread, %tid.x;
  cvt.rn.f32.u32 %first, %thread;
{begin}
ROUND:
{chain}
  sub.u32 %left, %left, 1;
  setp.ne.u32 %p, %left, 0;
  @%p bra ROUND;
{total}
  setp.eq.f32 %p, %first, 0fFF7FFFFF;
  cvta.to.global.u64 %out, %out;
  @%p st.global.f32 [%out], %first;
  ret;
}}
"""


def _copy() -> str:
    """Copies `p_vectors` vectors, `p_passes` times; the number is a multiple of what a round of all takes."""
    lanes = range(VECTORS_IN_FLIGHT)

    def vector(number: int) -> str:
        return "{" + ", ".join(f"%v{4 * number + part}" for part in range(4)) + "}"

    loads = "\n".join(
        f"  ld.global.v4.u32 {vector(i)}, [%from];\n  add.u64 %from, %from, %stride;" for i in lanes
    )
    stores = "\n".join(f"  st.global.v4.u32 [%to], {vector(i)};\n  add.u64 %to, %to, %stride;" for i in lanes)
    return f"""
.visible .entry {COPY_KERNEL}(.param .u64 p_to, .param .u64 p_from, .param .u64 p_vectors,
                              .param .u32 p_passes)
{{
  .reg .pred %p;
  .reg .b32 %v<{4 * VECTORS_IN_FLIGHT}>, %block, %blocks, %threads, %thread, %passes;
  .reg .b64 %to, %from, %to_begin, %from_begin, %end, %first, %stride;
  ld.param.u64 %to_begin, [p_to];
  ld.param.u64 %from_begin, [p_from];
  ld.param.u64 %end, [p_vectors];
  ld.param.u32 %passes, [p_passes];
  cvta.to.global.u64 %to_begin, %to_begin;
  cvta.to.global.u64 %from_begin, %from_begin;
  mad.lo.u64 %end, %end, {VECTOR_BYTES}, %from_begin;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %thread, %block, %threads, %thread;
  mul.wide.u32 %first, %thread, {VECTOR_BYTES};
  mul.lo.u32 %blocks, %blocks, %threads;
  mul.wide.u32 %stride, %blocks, {VECTOR_BYTES};
  add.u64 %to_begin, %to_begin, %first;
  add.u64 %from_begin, %from_begin, %first;
PASS:
  mov.u64 %to, %to_begin;
  mov.u64 %from, %from_begin;
MORE:
{loads}
{stores}
  setp.lt.u64 %p, %from, %end;
  @%p bra MORE;
  sub.u32 %passes, %passes, 1;
  setp.ne.u32 %p, %passes, 0;
  @%p bra PASS;
  ret;
}}
"""


def ptx() -> bytes:
    """Returns the module with all kernels, ended by a zero as the driver wants it."""
    return (_HEAD + _compute() + _copy() + _EMPTY).encode() + b"\0"


def compute_work(multiprocessors: int) -> int:
    """Returns the multiply-adds of one run of the compute kernel."""
    return multiprocessors * COMPUTE_BLOCKS_PER_SM * COMPUTE_THREADS * FMA_PER_THREAD


def copy_vectors(multiprocessors: int, buffer_bytes: int) -> int:
    """Returns how many vectors of a buffer the copy kernel takes: a whole number of rounds of all threads."""
    at_once = multiprocessors * COPY_BLOCKS_PER_SM * COPY_THREADS * VECTORS_IN_FLIGHT
    return buffer_bytes // VECTOR_BYTES // at_once * at_once
