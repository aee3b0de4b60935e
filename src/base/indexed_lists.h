// A list for each index, in two arrays.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/index.h"

namespace tessera {

/// Lists are appended one after the other, or sorted from pairs.
///   memory  four bytes a list, beside the elements
template <class IndexType, class T>
class IndexedLists {
 public:
  IndexedLists() = default;
  /// The second elements of the pairs of each index, in the order of the pairs.
  ///   size  the number of lists
  IndexedLists(int size, std::span<const std::pair<IndexType, T>> pairs) : begins_(size + 1, 0) {
    for (const auto& [index, element] : pairs) ++begins_[index.value() + 1];
    for (size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    std::vector<int> next = begins_;
    elements_.resize(pairs.size());
    for (const auto& [index, element] : pairs) elements_[next[index.value()]++] = element;
  }

  /// Adds to the list after the last one, which end_list() completes.
  void add(T element) { elements_.push_back(std::move(element)); }
  void end_list() { begins_.push_back(static_cast<int>(elements_.size())); }

  int size() const { return static_cast<int>(begins_.size()) - 1; }
  bool contains(IndexType index) const { return index.value() >= 0 && index.value() < size(); }
  std::span<const T> operator[](IndexType index) const {
    const int begin = begins_[index.value()];
    return std::span(elements_).subspan(begin, begins_[index.value() + 1] - begin);
  }

 private:
  std::vector<int> begins_ = {0};  // in elements_, and the end of the last one
  std::vector<T> elements_;
};

}  // namespace tessera
