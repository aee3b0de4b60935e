// A vector whose copies share their elements until one of them is changed.
#pragma once

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace tessera {

/// Reads and changes like a std::vector. A copy costs no memory; the first change of one of several
/// copies gives it elements of its own. References to elements are valid until the next change of a
/// vector that was copied since.
///
///   memory   two pointers; an empty one has no more
///   threads  copies may be read and destroyed in different threads. A vector is changed while no
///            other thread destroys a copy of it
template <class T>
class SharedVector {
 public:
  using value_type = T;
  using const_iterator = typename std::vector<T>::const_iterator;
  using iterator = typename std::vector<T>::iterator;

  SharedVector() = default;
  SharedVector(std::vector<T> items) {  // NOLINT: a vector is a shared vector
    if (!items.empty()) items_ = std::make_shared<std::vector<T>>(std::move(items));
  }
  SharedVector(std::initializer_list<T> items) : SharedVector(std::vector<T>(items)) {}
  explicit SharedVector(size_t count, const T& value = T())
      : SharedVector(std::vector<T>(count, value)) {}

  operator const std::vector<T>&() const { return items(); }
  const std::vector<T>& items() const {
    static const std::vector<T> none;
    return items_ ? *items_ : none;
  }
  size_t size() const { return items_ ? items_->size() : 0; }
  bool empty() const { return size() == 0; }
  const_iterator begin() const { return items().begin(); }
  const_iterator end() const { return items().end(); }
  const T& operator[](size_t i) const { return (*items_)[i]; }
  const T& at(size_t i) const { return items().at(i); }
  const T& front() const { return items().front(); }
  const T& back() const { return items().back(); }

  iterator begin() { return own().begin(); }
  iterator end() { return own().end(); }
  T& operator[](size_t i) { return own()[i]; }
  T& at(size_t i) { return own().at(i); }
  T& front() { return own().front(); }
  T& back() { return own().back(); }
  void push_back(T item) { own().push_back(std::move(item)); }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    return own().emplace_back(std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  iterator insert(const_iterator at, Arguments&&... arguments) {
    const auto place = at - std::as_const(*this).begin();
    std::vector<T>& mine = own();
    return mine.insert(mine.begin() + place, std::forward<Arguments>(arguments)...);
  }
  iterator erase(const_iterator first, const_iterator last) {
    const auto from = first - std::as_const(*this).begin(), count = last - first;
    std::vector<T>& mine = own();
    return mine.erase(mine.begin() + from, mine.begin() + from + count);
  }
  iterator erase(const_iterator at) { return erase(at, at + 1); }
  void resize(size_t count) { own().resize(count); }
  void assign(size_t count, const T& value) { own().assign(count, value); }
  void pop_back() { own().pop_back(); }
  void clear() { items_ = nullptr; }

  friend bool operator==(const SharedVector& a, const SharedVector& b) {
    return a.items_ == b.items_ || a.items() == b.items();
  }
  template <class Predicate>
  friend void erase_if(SharedVector& vector, const Predicate& predicate) {
    std::erase_if(vector.own(), predicate);
  }

 private:
  /// The elements, which no other vector shares.
  std::vector<T>& own() {
    if (!items_)
      items_ = std::make_shared<std::vector<T>>();
    else if (items_.use_count() > 1)
      items_ = std::make_shared<std::vector<T>>(*items_);
    return *items_;
  }

  std::shared_ptr<std::vector<T>> items_;  // nullptr: none
};

}  // namespace tessera
