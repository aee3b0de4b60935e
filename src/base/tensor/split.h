// Boxes of a tensor and the balanced split, which divides every extent: of shapes, messages, files
// and data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/tensor/dims.h"

namespace tessera {

/// A half-open range of indices [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const Range&) const = default;
};

/// Part `index` of `parts` of [0, extent). The first extent % parts parts are one larger; parts may
/// be empty.
///
///   requires  parts >= 1, 0 <= index < parts
///   example   balanced_part(10, 4, 1) = [3,6), of sizes 3, 3, 2, 2
Range balanced_part(int64_t extent, int64_t parts, int64_t index);

/// The greatest weight of a part, so that sums and products of weights are exact.
inline constexpr int64_t kMaxPartWeight = 1'000'000;

/// Part `index` of [0, extent) in parts of the given weights: of all divisions into whole elements,
/// one with the least max(size / weight), which is the time of the slowest of devices whose speeds
/// are the weights. Each next element goes to the part for which (size + 1) / weight is the least,
/// to the first of equal ones. So equal weights give balanced_part; of two parts the one of greater
/// weight is never smaller; and no part shrinks when the extent grows.
///
///   requires  1 <= weight <= kMaxPartWeight for each part
///   time      O(parts^2), whatever the extent
///   source    Jefferson's (d'Hondt's) method: Balinski and Young, Fair Representation, 1982
///   example   weighted_part(10, {2, 1}, 1) = [7,10), of sizes 7, 3
Range weighted_part(int64_t extent, std::span<const int64_t> weights, int64_t index);

/// The coordinate of a rank in its mesh: one index per axis.
using Coordinate = Dims;

/// One mesh axis that divides an extent: its index in the coordinate, the number of parts, and
/// their weights where these differ.
struct AxisPart {
  int axis = 0;
  int64_t parts = 1;
  std::vector<int64_t> weights = {};  // one a part; empty: equal

  /// Part `index` of [0, extent).
  Range part(int64_t extent, int64_t index) const;
  /// The largest part. It is the first of the greatest weight.
  int64_t largest(int64_t extent) const;
  /// The sum of the weights. An extent that it divides is divided exactly in proportion.
  int64_t blocks() const;
  bool operator==(const AxisPart&) const = default;
};

/// The range of one dim that a range of another dim needs. Index o of [0, from) needs the indices i
/// of [0, to) for which
///
///     num * o + before <= den * i <= num * o + after
///
/// A range needs all indices from the least to the greatest that its own indices need, as far as
/// they exist.
///
///     y = x[s:l:k]      from y to x        {num k, before s, after s}
///     pad by p in front from y to x        {before -p, after -p}
///     convolution       from y to x        {num stride, before -p, after dilation * (kernel - 1) -
///                       p}
///     its gradient      from x to y        {den stride, before p - dilation * (kernel - 1), after
///                       p}
struct Window {
  int64_t from = 1;
  int64_t to = 1;
  int64_t num = 1, den = 1;
  int64_t before = 0, after = 0;

  /// The range of [0, to) that `range` of [0, from) needs. An empty range needs an empty one.
  ///   requires  num, den >= 1
  Range apply(const Range& range) const;
  bool is_identity() const {
    return from == to && num == 1 && den == 1 && before == 0 && after == 0;
  }
  bool operator==(const Window&) const = default;
};
/// "(-1:+1)", "(*2-1:+1)", "(/2+0:+1)": num, den, before and after, without the extents.
std::string to_text(const Window& window);

/// The division of an extent over mesh axes, as a function of the coordinate.
///
///   extent   in units of `unit` elements: a fused dim is never cut inside a unit
///   axes     from the outermost: the first divides [0, extent), the next divides that part, and so
///            on, each balanced or by the weights of the axis
///   windows  what the part needs of other dims, each of the one before it; the last is the dim of
///            this split. Such parts may overlap, and may omit indices
///   chunks   the dim consists of this many equal pieces, each of which is divided in the same way,
///            and a part is its range of every piece: the heads of q, k and v, or the rows of a
///            merged dim. `extent` is that of one piece. Chunks have no windows
struct Split {
  int64_t extent = 1;
  int64_t unit = 1;
  std::vector<AxisPart> axes;
  std::vector<Window> windows = {};
  int64_t chunks = 1;

  /// The elements (not units) that the rank at `coordinate` holds. When nothing is divided, it
  /// holds all of the dim, whatever the windows.
  ///   requires  one chunk, or no axes
  Range range_at(const Coordinate& coordinate) const;
  /// The range of each chunk, in order; one range when nothing is divided.
  std::vector<Range> ranges_at(const Coordinate& coordinate) const;
  /// The largest number of elements that any rank holds. Without windows it is the number of the
  /// rank that has the first part of the greatest weight on each axis; without weights that is the
  /// rank at the origin.
  ///   time  with windows O(parts)
  int64_t largest() const;
  /// The number of elements of the dim.
  int64_t whole() const { return windows.empty() ? chunks * extent * unit : windows.back().to; }
  bool operator==(const Split&) const = default;
};

/// An integer of a local program: a constant plus multiples of the begins and sizes of splits at
/// the rank's coordinate.
struct LocalInt {
  struct Term {
    enum class Kind { kBegin, kSize };
    Kind kind = Kind::kBegin;
    int64_t times = 1;
    Split split;
    bool operator==(const Term&) const = default;
  };
  int64_t constant = 0;
  std::vector<Term> terms;

  LocalInt() = default;
  LocalInt(int64_t value) : constant(value) {}  // NOLINT: a number is a local number
  static LocalInt begin_of(Split split);
  static LocalInt size_of(Split split);
  bool is_constant() const { return terms.empty(); }
  int64_t at(const Coordinate& coordinate) const;
  bool operator==(const LocalInt&) const = default;
};
LocalInt operator+(LocalInt a, const LocalInt& b);
LocalInt operator-(LocalInt a, const LocalInt& b);
LocalInt operator*(int64_t times, LocalInt value);

/// A box of a tensor: one range per dim. Empty when any of its ranges is.
struct Box {
  std::vector<Range> ranges;

  Shape shape() const;
  bool empty() const;
  bool operator==(const Box&) const = default;
};

/// A box of the elements that a rank holds. Several boxes share one dense tensor, so the indices of
/// each begin at another position than in a tensor of its own.
///   frame  contains the box and has the extents of the dense tensor. Index i of the whole tensor
///          is i - begin of the frame in the dense tensor
struct Piece {
  Box box;
  Box frame;
  bool operator==(const Piece&) const = default;
};
/// The non-empty boxes of a tensor that is divided by `dims`, in row-major order.
std::vector<Piece> pieces_at(const std::vector<Split>& dims, const Coordinate& coordinate);
/// The piece that contains `box`.
///   requires  such a piece exists
const Piece& piece_around(const std::vector<Piece>& pieces, const Box& box);

/// The box that holds all of a tensor.
Box whole_box(const Shape& shape);
/// The common part of two boxes of one tensor; empty when they are disjoint.
Box intersect(const Box& a, const Box& b);
/// "[0:4, 6:12]".
std::string to_text(const Box& box);

}  // namespace tessera
