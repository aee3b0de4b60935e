// Typed indices: an index into one table is not accepted as an index into another.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera {

/// An index into the table that `Tag` names. A default-constructed index is invalid.
///
///     using TaskId = Index<struct TaskTag>;
///     const TaskId first(0);
template <class Tag>
class Index {
 public:
  constexpr Index() = default;
  constexpr explicit Index(int value) : value_(value) {}

  /// The position in the table, counted from 0; -1 when the index is invalid.
  constexpr int value() const { return value_; }
  constexpr bool is_none() const { return value_ < 0; }

  constexpr Index& operator++() {
    ++value_;
    return *this;
  }
  constexpr Index& operator--() {
    --value_;
    return *this;
  }
  constexpr Index operator+(int offset) const { return Index(value_ + offset); }
  constexpr Index operator-(int offset) const { return Index(value_ - offset); }
  /// The number of positions between two indices.
  constexpr int operator-(Index other) const { return value_ - other.value_; }

  constexpr auto operator<=>(const Index&) const = default;

 private:
  int value_ = -1;
};

/// The indices [begin, end), for range-based loops.
template <class IndexType>
class IndexRange {
 public:
  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = IndexType;
    constexpr Iterator() = default;
    constexpr explicit Iterator(IndexType at) : at_(at) {}
    constexpr IndexType operator*() const { return at_; }
    constexpr Iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr Iterator operator++(int) {
      Iterator before = *this;
      ++at_;
      return before;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    IndexType at_;
  };

  constexpr IndexRange(IndexType begin, IndexType end) : begin_(begin), end_(end) {}
  constexpr Iterator begin() const { return Iterator(begin_); }
  constexpr Iterator end() const { return Iterator(end_); }

 private:
  IndexType begin_, end_;
};

/// A std::vector whose elements are accessed by one type of index.
template <class IndexType, class T>
class IndexedVector {
 public:
  using value_type = T;
  using Vector = std::vector<T>;

  IndexedVector() = default;
  /// `count` copies of `value`.
  explicit IndexedVector(int count, const T& value = T()) : elements_(count, value) {}
  IndexedVector(std::initializer_list<T> elements) : elements_(elements) {}
  explicit IndexedVector(Vector elements) : elements_(std::move(elements)) {}

  /// requires  `index` is in [0, size()); the debug preset checks it
  decltype(auto) operator[](IndexType index) { return elements_[position(index)]; }
  decltype(auto) operator[](IndexType index) const { return elements_[position(index)]; }
  /// throws  InternalError when `index` is outside of the table
  decltype(auto) at(IndexType index) {
    ensure(contains(index), "an index is outside of its table");
    return elements_[position(index)];
  }
  decltype(auto) at(IndexType index) const {
    ensure(contains(index), "an index is outside of its table");
    return elements_[position(index)];
  }
  bool contains(IndexType index) const { return index.value() >= 0 && index.value() < size(); }

  int size() const { return static_cast<int>(elements_.size()); }
  bool empty() const { return elements_.empty(); }
  /// The index that the next element will have.
  IndexType end_index() const { return IndexType(size()); }
  IndexRange<IndexType> indices() const { return {IndexType(0), end_index()}; }

  /// Appends an element and returns its index.
  IndexType push_back(T element) {
    elements_.push_back(std::move(element));
    return IndexType(size() - 1);
  }
  /// Appends an element and returns it.
  template <class... Arguments>
  decltype(auto) emplace_back(Arguments&&... arguments) {
    return elements_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  decltype(auto) front() { return elements_.front(); }
  decltype(auto) front() const { return elements_.front(); }
  decltype(auto) back() { return elements_.back(); }
  decltype(auto) back() const { return elements_.back(); }
  void reserve(int count) { elements_.reserve(count); }
  void resize(int count) { elements_.resize(count); }
  void resize(int count, const T& value) { elements_.resize(count, value); }
  void assign(int count, const T& value) { elements_.assign(count, value); }
  void clear() { elements_.clear(); }

  auto begin() { return elements_.begin(); }
  auto end() { return elements_.end(); }
  auto begin() const { return elements_.begin(); }
  auto end() const { return elements_.end(); }

  /// The elements without their index type, for algorithms that do not need it.
  Vector& elements() { return elements_; }
  const Vector& elements() const { return elements_; }

  bool operator==(const IndexedVector&) const = default;

 private:
  static std::size_t position(IndexType index) { return index.value(); }

  Vector elements_;
};

}  // namespace tessera

template <class Tag>
struct std::hash<tessera::Index<Tag>> {
  std::size_t operator()(tessera::Index<Tag> index) const {
    return std::hash<int>()(index.value());
  }
};
