#include "cost_table.h"

#include <cmath>
#include <cstdlib>

namespace cctrace {
namespace {

// An hour per call is beyond anything meant; it also keeps conversions defined.
constexpr double kMaxNs = 3.6e12;

bool is_end(char c) { return !c || c == ','; }

}  // namespace

CostTable CostTable::parse(const char* text) {
  CostTable table;
  for (const char* p = text; p;) {
    char* end;
    const double bytes = strtod(p, &end);
    if (end == p || *end != ':') return {};
    p = end + 1;
    const double ns = strtod(p, &end) * 1e3;
    if (end == p || !(*end == '/' || is_end(*end))) return {};
    const double last = table.count_ ? table.nodes_[table.count_ - 1].bytes : 0;
    // Written so that a NaN fails too.
    if (table.count_ == kMaxNodes || !(bytes > last && bytes < 1e18) || !(ns >= 0 && ns <= kMaxNs)) return {};
    table.nodes_[table.count_++] = {bytes, ns, 0, 0};
    p = is_end(*end) ? nullptr : end + 1;
  }
  table.prepare();
  return table;
}

void CostTable::prepare() {
  for (int i = 0; i < count_; i++) {
    Node& n = nodes_[i];
    if (n.ns > 0) empty_ = false;
    if (i + 1 == count_) {
      n.exponent = 1;
      continue;
    }
    const Node& next = nodes_[i + 1];
    if (n.ns > 0 && next.ns > 0) {
      n.exponent = log2(next.ns / n.ns) / log2(next.bytes / n.bytes);
    } else {
      n.per_byte = (next.ns - n.ns) / (next.bytes - n.bytes);
    }
  }
}

uint64_t CostTable::ns(uint64_t bytes) const {
  if (empty_ || !bytes) return 0;
  const auto size = static_cast<double>(bytes);
  int low = 0;
  for (int high = count_; high - low > 1;) {
    const int middle = (low + high) / 2;
    (nodes_[middle].bytes <= size ? low : high) = middle;
  }
  const Node& n = nodes_[low];
  double ns = n.ns;
  if (size > n.bytes) {
    ns = n.exponent != 0 ? n.ns * exp2(n.exponent * log2(size / n.bytes))
                         : n.ns + (size - n.bytes) * n.per_byte;
  }
  return static_cast<uint64_t>((ns < kMaxNs ? ns : kMaxNs) + 0.5);
}

}  // namespace cctrace
