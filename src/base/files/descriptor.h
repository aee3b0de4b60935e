// An open file or socket of the system.
#pragma once

#include <unistd.h>

#include <utility>

namespace tessera {

/// Owns a file descriptor and closes it at its end. A negative one, as a failed call returns it,
/// is none.
///   threads  as an int
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// Closes it at once.
  ///   returns  false when the system reports, in errno, that what was written is not stored
  bool close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

}  // namespace tessera
