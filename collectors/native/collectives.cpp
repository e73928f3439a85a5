#include "collectives.h"

#include <stdlib.h>
#include <string.h>

namespace cctrace {
namespace collectives {
namespace {

constexpr int kNotInSymbol = -1;

struct Pattern {
  const char* part;  // of the symbol
  Kind kind;
  bool nccl;
  int ranks_at;  // which integer among the template's arguments is the number of ranks
};

// In order: the first that fits counts. Barriers alone are not here: they carry no data.
constexpr Pattern kPatterns[] = {
    // NCCL: send and receive, which is how all-to-all is made of them; then everything else. "Sym" and
    // "Symk": on symmetric memory, since 2.27 and 2.28. "ncclKernel": until 2.18.
    {"ncclDevKernel_SendRecv", Kind::all_to_all, true, kNotInSymbol},
    {"ncclKernel_SendRecv", Kind::all_to_all, true, kNotInSymbol},
    {"ncclSymkDevKernel_AlltoAll", Kind::all_to_all, true, kNotInSymbol},
    {"ncclDevKernel_", Kind::collective, true, kNotInSymbol},
    {"ncclSymkDevKernel_", Kind::collective, true, kNotInSymbol},
    {"ncclSymDevKernel_", Kind::collective, true, kNotInSymbol},
    {"ncclKernel_", Kind::collective, true, kNotInSymbol},
    // vLLM, SGLang and what descends from them: cross_device_reduce_1stage<type, ranks>.
    {"cross_device_reduce_", Kind::collective, false, 0},
    // torch symmetric memory: <type, alignment, ranks>, and those through multicast.
    {"one_shot_all_reduce_kernel", Kind::collective, false, 1},
    {"two_shot_all_reduce_kernel", Kind::collective, false, 1},
    {"multimem_all_reduce_kernel", Kind::collective, false, kNotInSymbol},
    {"multimem_one_shot_", Kind::collective, false, kNotInSymbol},
    {"multimem_all_gather_kernel", Kind::collective, false, kNotInSymbol},
    // TensorRT LLM and FlashInfer, also fused with normalization: the kernel is lengthened as a whole. The
    // first is <cluster, type, ranks>.
    {"lamport_style_one_shot_all_reduce_norm_kernel", Kind::collective, false, 1},
    {"allreduce_fusion_kernel_", Kind::collective, false, 0},
    {"oneshotAllreduceFusionKernel", Kind::collective, false, kNotInSymbol},
    {"twoshotAllreduceKernel", Kind::collective, false, kNotInSymbol},
    {"oneShotAllReduceKernel", Kind::collective, false, 0},
    {"twoShotAllReduceKernel", Kind::collective, false, 0},
    {"lowPrecisionTwoShotAllReduceKernel", Kind::collective, false, kNotInSymbol},
    {"moeAllToAllKernel", Kind::all_to_all, false, kNotInSymbol},
    {"moeA2ADispatchKernel", Kind::all_to_all, false, kNotInSymbol},
    {"moeA2ACombineKernel", Kind::all_to_all, false, kNotInSymbol},
    // Transformer Engine and TensorRT LLM, over memory that all ranks have mapped.
    {"userbuffers_fp16_sum_inplace_gpu_", Kind::collective, false, kNotInSymbol},
    // DeepEP: dispatch and combine of experts, within a node and in its low-latency form.
    {"deep_ep9intranode8dispatch", Kind::all_to_all, false, 0},
    {"deep_ep9intranode7combine", Kind::all_to_all, false, 0},
    {"deep_ep12internode_ll8dispatch", Kind::all_to_all, false, kNotInSymbol},
    {"deep_ep12internode_ll7combine", Kind::all_to_all, false, kNotInSymbol},
};

// More GPUs than one NVLink domain has.
constexpr long kMaxRanks = 1024;

// The n-th integer among the template arguments of a mangled symbol ("…Li8E…"); 0 if there is none.
uint16_t template_integer(const char* symbol, int n) {
  for (const char* p = strstr(symbol, "Li"); p; p = strstr(p + 2, "Li")) {
    char* end = nullptr;
    const long value = strtol(p + 2, &end, 10);
    if (end == p + 2 || *end != 'E') continue;
    if (n--) continue;
    return value > 1 && value <= kMaxRanks ? static_cast<uint16_t>(value) : uint16_t{0};
  }
  return 0;
}

}  // namespace

Kernel recognize(const char* symbol) {
  Kernel kernel;
  for (const Pattern& pattern : kPatterns) {
    const char* at = symbol ? strstr(symbol, pattern.part) : nullptr;
    if (!at) continue;
    kernel.kind = pattern.kind;
    kernel.nccl = pattern.nccl;
    if (pattern.ranks_at != kNotInSymbol) kernel.ranks = template_integer(at, pattern.ranks_at);
    break;
  }
  return kernel;
}

}  // namespace collectives
}  // namespace cctrace
