#include "shard/layout/mesh.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <set>

#include "base/count_text.h"
#include "base/text.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw UserError(what, why, fix, ExitCode::kBadConfig);
}

bool is_name(std::string_view text) {
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

void check_axes(const Shape& shape, const std::vector<std::string>& axes) {
  if (static_cast<int>(axes.size()) != shape.size())
    refuse("a mesh of shape [" + to_text(shape) + "] has " + std::to_string(axes.size()) +
               " axis names",
           "each axis needs one name",
           "give " + std::to_string(shape.size()) + " names, such as dp, tp, cp, ep");
  std::set<std::string> seen;
  for (int i = 0; i < shape.size(); ++i) {
    const std::string& axis = axes[i];
    if (!is_name(axis))
      refuse("'" + axis + "' cannot name a mesh axis",
             "a name is a letter and then letters, digits or _", "call it dp, tp, ...");
    if (!seen.insert(axis).second)
      refuse("the mesh axis '" + axis + "' occurs twice", "an axis is named once",
             "rename or merge one of them");
    if (shape[i] < 1)
      refuse("the mesh axis '" + axis + "' has size " + std::to_string(shape[i]),
             "an axis has at least one rank", "set it to 1 or more");
  }
}

}  // namespace

Mesh::Mesh(Shape shape, std::vector<std::string> axes, std::vector<Rank> ranks)
    : shape_(shape), axes_(std::move(axes)), ranks_(std::move(ranks)) {
  check_axes(shape_, axes_);
  const size_t count = element_count(shape_);
  if (ranks_.empty()) {
    ranks_.resize(count);
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  if (ranks_.size() != count)
    refuse("a mesh of shape [" + to_text(shape_) + "] has " + counted(size(), "rank"),
           "it needs " + std::to_string(count), "list one rank for each coordinate");
  if (std::set<Rank>(ranks_.begin(), ranks_.end()).size() != count)
    refuse("a rank occurs twice in a mesh", "each coordinate of a mesh is another rank",
           "list each rank once");
}

int Mesh::axis(std::string_view name) const {
  const std::optional<int> found = find_axis(name);
  if (!found)
    refuse("the mesh " + to_text(*this) + " has no axis '" + std::string(name) + "'",
           "its axes are " + join(axes_, ", "), "use one of these, or add the axis to the mesh");
  return *found;
}

std::optional<int> Mesh::find_axis(std::string_view name) const {
  for (int axis = 0; axis < axis_count(); ++axis)
    if (axes_[axis] == name) return axis;
  return std::nullopt;
}

Rank Mesh::rank_at(const Coordinate& coordinate) const {
  const Dims strides = row_major_strides(shape_);
  int64_t index = 0;
  for (int i = 0; i < shape_.size(); ++i) index += coordinate[i] * strides[i];
  return ranks_[index];
}

std::optional<Coordinate> Mesh::coordinate_of(Rank rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  if (found == ranks_.end()) return std::nullopt;
  return coordinate_at(static_cast<int>(found - ranks_.begin()));
}

Coordinate Mesh::coordinate_at(int index) const {
  Coordinate coordinate = Dims::filled(shape_.size(), 0);
  int64_t rest = index;
  for (int i = shape_.size() - 1; i >= 0; --i) {
    coordinate[i] = rest % shape_[i];
    rest /= shape_[i];
  }
  return coordinate;
}

Mesh Mesh::reshape(Shape shape, std::vector<std::string> axes) const {
  if (element_count(shape) != size())
    refuse(
        "a mesh of " + counted(size(), "rank") + " cannot take the shape [" + to_text(shape) + "]",
        "that shape has " + std::to_string(element_count(shape)) + " coordinates",
        "choose extents whose product is " + std::to_string(size()));
  return Mesh(shape, std::move(axes), ranks_);
}

Mesh Mesh::slice(std::string_view name, int64_t index) const {
  const int dropped = axis(name);
  if (index < 0 || index >= shape_[dropped])
    refuse("axis '" + std::string(name) + "' has no index " + std::to_string(index),
           "its size is " + std::to_string(shape_[dropped]),
           "use an index from 0 to " + std::to_string(shape_[dropped] - 1));
  Shape shape;
  std::vector<std::string> axes;
  for (int i = 0; i < shape_.size(); ++i) {
    if (i == dropped) continue;
    shape.push_back(shape_[i]);
    axes.push_back(axes_[i]);
  }
  std::vector<Rank> ranks;
  for (int i = 0; i < size(); ++i)
    if (coordinate_at(i)[dropped] == index) ranks.push_back(ranks_[i]);
  return Mesh(shape, std::move(axes), std::move(ranks));
}

bool share_ranks(const Mesh& a, const Mesh& b) {
  if (&a == &b) return true;
  std::vector<Rank> others = b.ranks();
  std::sort(others.begin(), others.end());
  return std::any_of(a.ranks().begin(), a.ranks().end(), [&](Rank rank) {
    return std::binary_search(others.begin(), others.end(), rank);
  });
}

std::string to_text(const Mesh& mesh) {
  std::vector<std::string> parts;
  for (int i = 0; i < mesh.axis_count(); ++i)
    parts.push_back(mesh.axes()[i] + "=" + std::to_string(mesh.shape()[i]));
  std::vector<std::string> ranks;
  bool counted = true;
  for (int i = 0; i < mesh.size(); ++i) {
    ranks.push_back(std::to_string(mesh.ranks()[i]));
    counted = counted && mesh.ranks()[i] == i;
  }
  return join(parts, " ") + (counted ? "" : (parts.empty() ? "{" : " {") + join(ranks, ",") + "}");
}

Mesh parse_mesh(std::string_view text) {
  std::string spaced(text);
  for (char& letter : spaced)
    if (letter == ',' || letter == '-') letter = ' ';
  Shape shape;
  std::vector<std::string> axes;
  for (const std::string& word : split_text(spaced, ' ')) {
    if (word.empty()) continue;
    const size_t digits = word.find_first_of("0123456789");
    int64_t extent = 0;
    const char* begin = word.data() + std::min(digits, word.size());
    const auto [end, error] = std::from_chars(begin, word.data() + word.size(), extent);
    if (digits == std::string::npos || error != std::errc{} || end != word.data() + word.size())
      refuse("'" + std::string(text) + "' is not a mesh",
             "'" + word + "' is not an axis and its size", "write it as dp=2 tp=4");
    axes.push_back(word.substr(0, word[digits - (digits > 0)] == '=' ? digits - 1 : digits));
    shape.push_back(extent);
  }
  return Mesh(shape, std::move(axes));
}

}  // namespace tessera
