#include "base/tensor/split.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace tessera {

Range balanced_part(int64_t extent, int64_t parts, int64_t index) {
  ensure(parts >= 1 && index >= 0 && index < parts, "part of a balanced split");
  const int64_t size = extent / parts;
  const int64_t larger = extent % parts;
  const int64_t begin = index * size + std::min(index, larger);
  return {begin, begin + size + (index < larger ? 1 : 0)};
}

/// Every weight takes as many elements for each whole multiple of the sum of the weights; the rest
/// is divided element by element, starting at the whole numbers below its exact shares. Those come
/// first: an element below the exact share of its part has (size + 1) / weight <= extent / sum.
Range weighted_part(int64_t extent, std::span<const int64_t> weights, int64_t index) {
  const auto parts = std::ssize(weights);
  ensure(extent >= 0 && index >= 0 && index < parts, "part of a weighted split");
  const int64_t sum = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  const int64_t rest = extent % sum;
  std::vector<int64_t> sizes;
  int64_t left = rest;
  for (int64_t weight : weights) {
    ensure(weight >= 1 && weight <= kMaxPartWeight, "the weight of a part");
    sizes.push_back(rest * weight / sum);
    left -= sizes.back();
  }
  for (; left > 0; --left) {
    size_t next = 0;
    for (size_t i = 1; i < sizes.size(); ++i)
      if ((sizes[i] + 1) * weights[next] < (sizes[next] + 1) * weights[i]) next = i;
    ++sizes[next];
  }
  Range part;
  for (int64_t i = 0; i <= index; ++i)
    part = {part.end, part.end + extent / sum * weights[static_cast<size_t>(i)] +
                          sizes[static_cast<size_t>(i)]};
  return part;
}

Range AxisPart::part(int64_t extent, int64_t index) const {
  return weights.empty() ? balanced_part(extent, parts, index)
                         : weighted_part(extent, weights, index);
}

int64_t AxisPart::largest(int64_t extent) const {
  const auto heaviest = std::max_element(weights.begin(), weights.end()) - weights.begin();
  return part(extent, heaviest).size();
}

int64_t AxisPart::blocks() const {
  return weights.empty() ? parts : std::accumulate(weights.begin(), weights.end(), int64_t{0});
}

namespace {

int64_t floor_divide(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

int64_t ceil_divide(int64_t a, int64_t b) {
  return -floor_divide(-a, b);
}

/// The largest window over the parts into which `axes` from `axis` on divide [begin, end).
int64_t largest_window(const Split& split, const Range& range, size_t axis) {
  if (axis == split.axes.size()) {
    Range window{range.begin * split.unit, range.end * split.unit};
    for (const Window& next : split.windows) window = next.apply(window);
    return window.size();
  }
  int64_t maximum = 0;
  for (int64_t i = 0; i < split.axes[axis].parts; ++i) {
    const Range part = split.axes[axis].part(range.size(), i);
    maximum = std::max(
        maximum,
        largest_window(split, {range.begin + part.begin, range.begin + part.end}, axis + 1));
  }
  return maximum;
}

LocalInt of_split(LocalInt::Term::Kind kind, Split split) {
  LocalInt result;
  result.terms.push_back({kind, 1, std::move(split)});
  return result;
}

}  // namespace

Range Window::apply(const Range& range) const {
  ensure(num >= 1 && den >= 1, "a window keeps the order of what it is of");
  const int64_t begin = std::clamp<int64_t>(ceil_divide(num * range.begin + before, den), 0, to);
  if (range.empty()) return {begin, begin};
  const int64_t end = floor_divide(num * (range.end - 1) + after, den) + 1;
  return {begin, std::clamp(end, begin, to)};
}

std::string to_text(const Window& window) {
  const auto with_sign = [](int64_t value) {
    return (value < 0 ? "" : "+") + std::to_string(value);
  };
  return "(" + (window.num == 1 ? "" : "*" + std::to_string(window.num)) +
         (window.den == 1 ? "" : "/" + std::to_string(window.den)) + with_sign(window.before) +
         ":" + with_sign(window.after) + ")";
}

Range Split::range_at(const Coordinate& coordinate) const {
  if (axes.empty()) return {0, whole()};
  ensure(chunks == 1, "a part of several chunks is several ranges");
  return ranges_at(coordinate).front();
}

std::vector<Range> Split::ranges_at(const Coordinate& coordinate) const {
  if (axes.empty()) return {{0, whole()}};
  Range range{0, extent};
  for (const AxisPart& axis : axes) {
    ensure(axis.axis >= 0 && axis.axis < coordinate.size(),
           "a coordinate has an index for every axis of its mesh");
    const Range part = axis.part(range.size(), coordinate[axis.axis]);
    range = {range.begin + part.begin, range.begin + part.end};
  }
  range = {range.begin * unit, range.end * unit};
  for (const Window& window : windows) range = window.apply(range);
  std::vector<Range> ranges;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t begin = chunk * extent * unit;
    ranges.push_back({begin + range.begin, begin + range.end});
  }
  return ranges;
}

int64_t Split::largest() const {
  if (axes.empty()) return whole();
  if (!windows.empty()) return largest_window(*this, {0, extent}, 0);
  int64_t size = extent;
  for (const AxisPart& axis : axes) size = axis.largest(size);
  return chunks * size * unit;
}

LocalInt LocalInt::begin_of(Split split) {
  return split.axes.empty() ? LocalInt() : of_split(Term::Kind::kBegin, std::move(split));
}

LocalInt LocalInt::size_of(Split split) {
  return split.axes.empty() ? LocalInt(split.whole())
                            : of_split(Term::Kind::kSize, std::move(split));
}

int64_t LocalInt::at(const Coordinate& coordinate) const {
  int64_t value = constant;
  for (const Term& term : terms) {
    const int64_t size = term.split.ranges_at(coordinate).front().size() *
                         (term.split.axes.empty() ? 1 : term.split.chunks);
    value += term.times *
             (term.kind == Term::Kind::kBegin ? term.split.range_at(coordinate).begin : size);
  }
  return value;
}

LocalInt operator+(LocalInt a, const LocalInt& b) {
  a.constant += b.constant;
  a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
  return a;
}

LocalInt operator*(int64_t times, LocalInt value) {
  value.constant *= times;
  for (LocalInt::Term& term : value.terms) term.times *= times;
  return value;
}

LocalInt operator-(LocalInt a, const LocalInt& b) {
  return std::move(a) + -1 * b;
}

Shape Box::shape() const {
  Shape shape;
  for (const Range& range : ranges) shape.push_back(std::max<int64_t>(0, range.size()));
  return shape;
}

bool Box::empty() const {
  return std::any_of(ranges.begin(), ranges.end(),
                     [](const Range& range) { return range.empty(); });
}

std::vector<Piece> pieces_at(const std::vector<Split>& dims, const Coordinate& coordinate) {
  std::vector<Piece> pieces{{}};
  for (const Split& dim : dims) {
    const std::vector<Range> ranges = dim.ranges_at(coordinate);
    const int64_t extent = std::ssize(ranges) * ranges.front().size();
    std::vector<Piece> longer;
    for (const Piece& piece : pieces)
      for (int64_t i = 0; i < std::ssize(ranges); ++i) {
        const int64_t begin = ranges[i].begin - i * ranges[i].size();
        longer.push_back(piece);
        longer.back().box.ranges.push_back(ranges[i]);
        longer.back().frame.ranges.push_back({begin, begin + extent});
      }
    pieces = std::move(longer);
  }
  std::erase_if(pieces, [](const Piece& piece) { return piece.box.empty(); });
  return pieces;
}

const Piece& piece_around(const std::vector<Piece>& pieces, const Box& box) {
  const auto around = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return intersect(piece.box, box) == box;
  });
  ensure(around != pieces.end(), "a box is inside one piece of its holder");
  return *around;
}

Box whole_box(const Shape& shape) {
  Box box;
  for (int64_t extent : shape) box.ranges.push_back({0, extent});
  return box;
}

Box intersect(const Box& a, const Box& b) {
  ensure(a.ranges.size() == b.ranges.size(), "boxes of one tensor have the same rank");
  Box common;
  for (size_t d = 0; d < a.ranges.size(); ++d) {
    const int64_t begin = std::max(a.ranges[d].begin, b.ranges[d].begin);
    common.ranges.push_back({begin, std::max(begin, std::min(a.ranges[d].end, b.ranges[d].end))});
  }
  return common;
}

std::string to_text(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.ranges.size(); ++d)
    text += (d ? ", " : "") + std::to_string(box.ranges[d].begin) + ":" +
            std::to_string(box.ranges[d].end);
  return text + "]";
}

}  // namespace tessera
