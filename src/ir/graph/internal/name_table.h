// From the names of a list to their indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tessera {

/// An open-addressing hash table with linear probing over a list of unique names. The list has the
/// names, the table only a hash and an index for each: eight bytes a slot, at least half of them
/// free. Copies and growth thus touch no names.
///   Entry    of the list: it has a `name`
///   threads  several may read at the same time
class NameTable {
 public:
  /// The index of `name`; nullopt when the list does not have it.
  template <class Entry>
  std::optional<int> find(std::string_view name, const std::vector<Entry>& list) const {
    if (slots_.empty()) return std::nullopt;
    const Slot& slot = slots_[slot_of(name, hash_of(name), list)];
    return slot.index < 0 ? std::nullopt : std::optional(slot.index);
  }
  /// Adds the next name of the list, whose index is the number of names so far. The list may have
  /// it already or not.
  ///   returns  false, and adds nothing, when the name is taken
  template <class Entry>
  bool add(std::string_view name, const std::vector<Entry>& list) {
    if (2 * (static_cast<size_t>(size_) + 1) > slots_.size()) grow();
    const uint32_t hash = hash_of(name);
    Slot& slot = slots_[slot_of(name, hash, list)];
    if (slot.index >= 0) return false;
    slot = {hash, size_++};
    return true;
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    int index = -1;  // of a free slot
  };

  static uint32_t hash_of(std::string_view name);
  void grow();

  /// The slot that has the name, or the free one where it belongs.
  ///   requires  a slot is free
  template <class Entry>
  size_t slot_of(std::string_view name, uint32_t hash, const std::vector<Entry>& list) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash & mask;
    for (; slots_[i].index >= 0; i = (i + 1) & mask)
      if (slots_[i].hash == hash && list[slots_[i].index].name == name) break;
    return i;
  }

  std::vector<Slot> slots_;  // as many as a power of two, or none
  int size_ = 0;
};

}  // namespace tessera
