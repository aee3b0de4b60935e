// Quantities that must not be mixed up. Each is a number of one unit and converts to a plain number
// only by value().
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace tessera {

template <typename Tag, typename Number>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Number value) : value_(value) {}
  constexpr Number value() const { return value_; }
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity other) const { return Quantity(value_ + other.value_); }
  constexpr Quantity operator-(Quantity other) const { return Quantity(value_ - other.value_); }
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }

 private:
  Number value_{};
};

using Bytes = Quantity<struct BytesTag, int64_t>;
inline constexpr double kMib = 1 << 20;  // bytes
using Flops = Quantity<struct FlopsTag, double>;
using Seconds = Quantity<struct SecondsTag, double>;

/// A participant of a run, numbered from 0; a mesh gives each of its ranks a coordinate.
using Rank = int;

/// "1.5 GiB", "12 KiB", "7 B": at most one decimal.
std::string to_text(Bytes bytes);
/// "1.5 s", "12 ms", "7 us".
std::string to_text(Seconds seconds);

}  // namespace tessera
