#include "base/split.h"

#include <algorithm>

namespace tessera {

Range balanced_part(int64_t extent, int64_t parts, int64_t index) {
  ensure(parts >= 1 && index >= 0 && index < parts, "part of a balanced split");
  const int64_t size = extent / parts;
  const int64_t larger = extent % parts;
  const int64_t begin = index * size + std::min(index, larger);
  return {begin, begin + size + (index < larger ? 1 : 0)};
}

Range Split::range_at(const Coordinate& coordinate) const {
  Range range{0, extent};
  for (const AxisPart& axis : axes) {
    ensure(axis.axis >= 0 && axis.axis < coordinate.size(), "a coordinate has an index for every axis of its mesh");
    const Range part = balanced_part(range.size(), axis.parts, coordinate[axis.axis]);
    range = {range.begin + part.begin, range.begin + part.end};
  }
  return {range.begin * unit, range.end * unit};
}

int64_t Split::largest() const {
  int64_t size = extent;
  for (const AxisPart& axis : axes) size = (size + axis.parts - 1) / axis.parts;
  return size * unit;
}

LocalInt LocalInt::begin_of(Split split) {
  LocalInt result;
  if (split.axes.empty()) return result;
  result.kind = Kind::kBegin;
  result.split = std::move(split);
  return result;
}

LocalInt LocalInt::size_of(Split split) {
  LocalInt result(split.extent * split.unit);
  if (split.axes.empty()) return result;
  result.kind = Kind::kSize;
  result.constant = 0;
  result.split = std::move(split);
  return result;
}

int64_t LocalInt::at(const Coordinate& coordinate) const {
  switch (kind) {
    case Kind::kConstant: return constant;
    case Kind::kBegin: return constant + split.range_at(coordinate).begin;
    case Kind::kSize: return split.range_at(coordinate).size();
  }
  throw InternalError("unknown kind of local integer");
}

Shape Box::shape() const {
  Shape shape;
  for (const Range& range : ranges) shape.push_back(std::max<int64_t>(0, range.size()));
  return shape;
}

bool Box::empty() const {
  return std::any_of(ranges.begin(), ranges.end(), [](const Range& range) { return range.empty(); });
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
    text += (d ? ", " : "") + std::to_string(box.ranges[d].begin) + ":" + std::to_string(box.ranges[d].end);
  return text + "]";
}

}  // namespace tessera
