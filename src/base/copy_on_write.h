// A constant value that its copies share.
#pragma once

#include <memory>
#include <utility>

namespace tessera {

/// A value of type T that is made once: copying it copies no T. It reads as a `const T`.
///
///   requires  T has a default value and can be compared
///   memory    two pointers, and one T for all copies
///   threads   copies may be read and destroyed in different threads
template <class T>
class CopyOnWrite {
 public:
  CopyOnWrite() : CopyOnWrite(default_value()) {}
  CopyOnWrite(T value)  // NOLINT: a value is a shared value
      : value_(std::make_shared<const T>(std::move(value))) {}

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  operator const T&() const { return *value_; }
  /// Calls change(T&) with a copy, which becomes the value of this one alone.
  template <class Change>
  void change(const Change& change) {
    T copy = *value_;
    change(copy);
    *this = CopyOnWrite(std::move(copy));
  }

  friend bool operator==(const CopyOnWrite& a, const CopyOnWrite& b) {
    return a.value_ == b.value_ || *a == *b;
  }
  friend bool operator==(const CopyOnWrite& a, const T& b) { return *a == b; }

 private:
  static const CopyOnWrite& default_value() {
    static const CopyOnWrite value{T()};
    return value;
  }

  std::shared_ptr<const T> value_;
};

}  // namespace tessera
