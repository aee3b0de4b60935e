// Boxes of a tensor and the balanced split: the one way in which an extent is divided, for shapes, messages, files and data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dims.h"

namespace tessera {

/// Half-open range of indices [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const Range&) const = default;
};

/// Part `index` of `parts` of [0, extent): the first extent % parts parts are one larger; parts may be empty.
///
///   requires  parts >= 1, 0 <= index < parts
///   example   balanced_part(10, 4, 1) = [3,6), of sizes 3, 3, 2, 2
Range balanced_part(int64_t extent, int64_t parts, int64_t index);

/// Where a process stands in its mesh: one index per axis.
using Coordinate = Dims;

/// One mesh axis that divides an extent: which axis of the coordinate, and into how many parts.
struct AxisPart {
  int axis = 0;
  int64_t parts = 1;

  bool operator==(const AxisPart&) const = default;
};

/// How an extent is divided over mesh axes, as a function of the coordinate.
///
///   extent  in units of `unit` elements: a fused dim is never cut inside a unit
///   axes    from the outermost: the first divides [0, extent), the next divides that part, and so on, each balanced
struct Split {
  int64_t extent = 1;
  int64_t unit = 1;
  std::vector<AxisPart> axes;

  /// The elements (not units) that the process at `coordinate` holds.
  Range range_at(const Coordinate& coordinate) const;
  /// Largest number of elements that any process holds: that of the process at the origin.
  int64_t largest() const;
  bool operator==(const Split&) const = default;
};

/// An integer of a local program: the same everywhere, or the begin or size of a split at the process's coordinate.
struct LocalInt {
  enum class Kind { kConstant, kBegin, kSize };
  Kind kind = Kind::kConstant;
  int64_t constant = 0;  // the value of a constant; what is added to a begin
  Split split;

  LocalInt() = default;
  LocalInt(int64_t value) : constant(value) {}  // NOLINT: a number is a local number
  static LocalInt begin_of(Split split);
  static LocalInt size_of(Split split);
  int64_t at(const Coordinate& coordinate) const;
  bool operator==(const LocalInt&) const = default;
};

/// A box of a tensor: one range per dim. Empty when any of its ranges is.
struct Box {
  std::vector<Range> ranges;

  Shape shape() const;
  bool empty() const;
  bool operator==(const Box&) const = default;
};

/// The box that holds all of a tensor.
Box whole_box(const Shape& shape);
/// Common part of two boxes of one tensor; empty when they are apart.
Box intersect(const Box& a, const Box& b);
/// "[0:4, 6:12]".
std::string to_text(const Box& box);

}  // namespace tessera
