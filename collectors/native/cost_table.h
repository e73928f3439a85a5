// A cost that depends on a size: a table of nodes, and what lies between them.
#pragma once

#include <cstdint>

namespace cctrace {

class CostTable {
 public:
  static constexpr int kMaxNodes = 32;

  // "bytes:us/bytes:us/…" with ascending sizes, up to the end of the text or a comma. Anything else is an
  // empty table.
  static CostTable parse(const char* text);

  // True if no size costs anything.
  bool empty() const { return empty_; }

  // Nanoseconds for a size: between two nodes along a straight line in log size and log cost (in size and
  // cost where a node costs nothing), below the first node its cost, above the last one in proportion to the
  // size.
  uint64_t ns(uint64_t bytes) const;

 private:
  struct Node {
    double bytes;
    double ns;
    double exponent;  // cost = ns x (size / bytes) ^ exponent up to the next node…
    double per_byte;  // …or ns + (size - bytes) x per_byte, where logarithms do not exist
  };

  void prepare();

  Node nodes_[kMaxNodes] = {};
  int count_ = 0;
  bool empty_ = true;
};

}  // namespace cctrace
