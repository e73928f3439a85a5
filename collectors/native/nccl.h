// NCCL's host calls: each becomes a row, and tells the emulator what the kernel carries that it launches.
// Nothing is exported under NCCL's names: a program that looks whether a function exists must not find ours.
#pragma once

namespace cctrace {
namespace nccl {

// What a program is to call instead of `real`, which is what `symbol` means to it. `real` itself if that is
// none of ours.
void* wrap(const char* symbol, void* real);

}  // namespace nccl
}  // namespace cctrace
