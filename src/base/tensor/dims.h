// Small inline lists of extents: shapes, strides, coordinates. Copying one never allocates.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"

namespace tessera {

inline constexpr int kMaxRank = 8;

/// Up to kMaxRank integers, inline.
class Dims {
 public:
  constexpr Dims() = default;
  Dims(std::initializer_list<int64_t> list)
      : Dims(std::span<const int64_t>(list.begin(), list.size())) {}
  explicit Dims(std::span<const int64_t> list) {
    for (int64_t extent : list) push_back(extent);
  }
  /// `count` times `value`.
  static Dims filled(int count, int64_t value) {
    Dims dims;
    for (int i = 0; i < count; ++i) dims.push_back(value);
    return dims;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](int64_t i) { return values_[i]; }
  int64_t operator[](int64_t i) const { return values_[i]; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + size_; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  void push_back(int64_t value) {
    ensure(size_ < kMaxRank, "a tensor has at most 8 dims");
    values_[size_++] = value;
  }
  operator std::span<const int64_t>() const {
    return std::span<const int64_t>(values_.data(), size_);
  }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.size_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> values_{};
  int size_ = 0;
};

/// Extents of a tensor, outermost dim first; data is dense and row-major. A scalar has none. An
/// extent may be 0.
using Shape = Dims;

/// Product of the extents; 1 for a scalar.
int64_t element_count(const Shape& shape);

/// Row-major strides in elements: strides({2,3,4}) = {12,4,1}.
Dims row_major_strides(const Shape& shape);

/// Advances `index` to the next one in row-major order.
///   requires  no extent is 0
///   returns   false, with all indices 0, after the last one
bool advance_index(Dims& index, const Shape& shape);

/// The position of an index in row-major order.
int64_t row_major_index(const Dims& index, const Shape& shape);

/// "8,16"; "" for a scalar.
std::string to_text(const Dims& dims);

}  // namespace tessera
