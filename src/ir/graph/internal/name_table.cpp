#include "ir/graph/internal/name_table.h"

#include <algorithm>
#include <functional>

namespace tessera {

uint32_t NameTable::hash_of(std::string_view name) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(name));
}

void NameTable::grow() {
  std::vector<Slot> smaller(std::max<size_t>(2 * slots_.size(), 16));
  smaller.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : smaller) {
    if (slot.index < 0) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].index >= 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

}  // namespace tessera
