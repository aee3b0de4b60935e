#include "sharding/layout/mesh.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>

#include "base/text/count_text.h"
#include "base/text/text.h"

namespace tessera {

bool can_name_mesh(std::string_view text) {
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

namespace {

std::string weights_text(const std::vector<int64_t>& weights) {
  std::vector<std::string> texts;
  for (int64_t weight : weights) texts.push_back(std::to_string(weight));
  return join(texts, ":");
}

void check_axes(const Shape& shape, const std::vector<std::string>& axes) {
  if (static_cast<int>(axes.size()) != shape.size())
    refuse_config("a mesh of shape [" + to_text(shape) + "] has " + std::to_string(axes.size()) +
                      " axis names",
                  "each axis needs one name",
                  "give " + std::to_string(shape.size()) + " names, such as dp, tp, cp, ep");
  std::set<std::string> seen;
  for (int i = 0; i < shape.size(); ++i) {
    const std::string& axis = axes[i];
    if (!can_name_mesh(axis))
      refuse_config("'" + axis + "' cannot name a mesh axis",
                    "a name is a letter and then letters, digits or _", "call it dp, tp, ...");
    if (!seen.insert(axis).second)
      refuse_config("the mesh axis '" + axis + "' occurs twice", "an axis is named once",
                    "rename or merge one of them");
    if (shape[i] < 1)
      refuse_config("the mesh axis '" + axis + "' has size " + std::to_string(shape[i]),
                    "an axis has at least one rank", "set it to 1 or more");
  }
}

void check_weights(const std::string& axis, int64_t parts, const std::vector<int64_t>& weights) {
  const std::string what = "the mesh axis '" + axis + "' has the weights " + weights_text(weights);
  if (std::ssize(weights) != parts)
    refuse_config(what + " and " + counted(parts, "part"), "each part has one weight",
                  "give " + counted(parts, "weight"));
  for (int64_t weight : weights)
    if (weight < 1 || weight > kMaxPartWeight)
      refuse_config(what, "a weight is a whole number from 1 to " + std::to_string(kMaxPartWeight),
                    "write the ratio of the parts in such numbers, as 2:1");
  if (axis == kMicroBatchAxis)
    refuse_config(what,
                  "the micro-batches of a step have the same number of rows, because one compiled "
                  "program serves all of them",
                  "weight the axis of the mesh that divides the rows of a micro-batch");
}

/// The weights without their common divisor; none when they are equal.
std::vector<int64_t> canonical(std::vector<int64_t> weights) {
  const bool are_equal =
      std::adjacent_find(weights.begin(), weights.end(), std::not_equal_to<>()) == weights.end();
  if (are_equal) return {};
  int64_t divisor = 0;
  for (int64_t weight : weights) divisor = std::gcd(divisor, weight);
  for (int64_t& weight : weights) weight /= divisor;
  return weights;
}

}  // namespace

Mesh::Mesh(Shape shape, std::vector<std::string> axes, std::vector<Rank> ranks, AxisWeights weights)
    : shape_(shape),
      axes_(std::move(axes)),
      ranks_(std::move(ranks)),
      weights_(std::move(weights)) {
  check_axes(shape_, axes_);
  ensure(weights_.size() <= axes_.size(), "weights are of the axes of the mesh");
  weights_.resize(axes_.size());
  for (int i = 0; i < axis_count(); ++i) {
    if (weights_[i].empty()) continue;
    check_weights(axes_[i], shape_[i], weights_[i]);
    weights_[i] = canonical(std::move(weights_[i]));
  }
  const size_t count = element_count(shape_);
  if (ranks_.empty()) {
    ranks_.resize(count);
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  if (ranks_.size() != count)
    refuse_config("a mesh of shape [" + to_text(shape_) + "] has " + counted(size(), "rank"),
                  "it needs " + std::to_string(count), "list one rank for each coordinate");
  if (std::set<Rank>(ranks_.begin(), ranks_.end()).size() != count)
    refuse_config("a rank occurs twice in a mesh", "each coordinate of a mesh is another rank",
                  "list each rank once");
}

int Mesh::axis(std::string_view name) const {
  const std::optional<int> found = find_axis(name);
  if (found) return *found;
  // A mesh without axes, as the serial plan has it, is one rank on an axis of its own.
  if (axes_.front() == "all" && shape_[0] == 1)
    refuse_config("no mesh axis is called '" + std::string(name) + "'",
                  "the mesh is one rank, without axes",
                  "add the axis: \"mesh\": {\"" + std::string(name) + "\": 2}");
  std::vector<std::string> names;
  for (const std::string& axis : axes_)
    if (axis != kMicroBatchAxis) names.push_back(axis);
  refuse_config("the mesh " + given_text(*this) + " has no axis '" + std::string(name) + "'",
                "its axes are " + join(names, ", "),
                "use one of these, or add the axis to the mesh");
}

std::string given_text(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (int i = 0; i < mesh.axis_count(); ++i)
    if (mesh.axes()[i] != kMicroBatchAxis) axes.push_back(axis_text(mesh, i));
  return join(axes, " ");
}

std::optional<int> Mesh::find_axis(std::string_view name) const {
  for (int axis = 0; axis < axis_count(); ++axis)
    if (axes_[axis] == name) return axis;
  return std::nullopt;
}

Rank Mesh::rank_at(const Coordinate& coordinate) const {
  int64_t index = 0;
  for (int i = 0; i < shape_.size(); ++i) index = index * shape_[i] + coordinate[i];
  return ranks_[index];
}

std::optional<Coordinate> Mesh::coordinate_of(Rank rank) const {
  // In most meshes rank i is at position i, and exchanges between many ranks ask often.
  if (rank >= 0 && rank < size() && ranks_[rank] == rank) return coordinate_at(rank);
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

bool Mesh::is_weighted() const {
  return std::any_of(weights_.begin(), weights_.end(),
                     [](const std::vector<int64_t>& weights) { return !weights.empty(); });
}

AxisPart Mesh::axis_part(int axis) const {
  return {axis, shape_[axis], weights_[axis]};
}

Coordinate Mesh::largest_shard_coordinate() const {
  Coordinate coordinate;
  for (const std::vector<int64_t>& weights : weights_)
    coordinate.push_back(std::max_element(weights.begin(), weights.end()) - weights.begin());
  return coordinate;
}

Coordinate Mesh::smallest_shard_coordinate() const {
  Coordinate coordinate;
  for (int axis = 0; axis < axis_count(); ++axis) {
    const std::vector<int64_t>& weights = weights_[axis];
    const auto from_last = std::min_element(weights.rbegin(), weights.rend()) - weights.rbegin();
    coordinate.push_back(shape_[axis] - 1 - from_last);
  }
  return coordinate;
}

Mesh Mesh::reshape(Shape shape, std::vector<std::string> axes) const {
  if (is_weighted())
    refuse_config("the mesh " + to_text(*this) + " cannot be reshaped",
                  "the parts of its axes have weights, and other axes have other parts",
                  "make the mesh with the axes that it needs");
  if (element_count(shape) != size())
    refuse_config(
        "a mesh of " + counted(size(), "rank") + " cannot take the shape [" + to_text(shape) + "]",
        "that shape has " + std::to_string(element_count(shape)) + " coordinates",
        "choose extents whose product is " + std::to_string(size()));
  return Mesh(shape, std::move(axes), ranks_);
}

Mesh Mesh::slice(std::string_view name, int64_t index) const {
  const int dropped = axis(name);
  if (index < 0 || index >= shape_[dropped])
    refuse_config("axis '" + std::string(name) + "' has no index " + std::to_string(index),
                  "its size is " + std::to_string(shape_[dropped]),
                  "use an index from 0 to " + std::to_string(shape_[dropped] - 1));
  Shape shape;
  std::vector<std::string> axes;
  AxisWeights weights;
  for (int i = 0; i < shape_.size(); ++i) {
    if (i == dropped) continue;
    shape.push_back(shape_[i]);
    axes.push_back(axes_[i]);
    weights.push_back(weights_[i]);
  }
  std::vector<Rank> ranks;
  for (int i = 0; i < size(); ++i)
    if (coordinate_at(i)[dropped] == index) ranks.push_back(ranks_[i]);
  return Mesh(shape, std::move(axes), std::move(ranks), std::move(weights));
}

bool share_ranks(const Mesh& a, const Mesh& b) {
  if (&a == &b) return true;
  std::vector<Rank> others = b.ranks();
  std::sort(others.begin(), others.end());
  return std::any_of(a.ranks().begin(), a.ranks().end(), [&](Rank rank) {
    return std::binary_search(others.begin(), others.end(), rank);
  });
}

std::string axis_text(const Mesh& mesh, int axis) {
  const std::vector<int64_t>& weights = mesh.weights()[axis];
  return mesh.axes()[axis] + "=" +
         (weights.empty() ? std::to_string(mesh.shape()[axis]) : weights_text(weights));
}

std::string to_text(const Mesh& mesh) {
  std::vector<std::string> parts;
  for (int i = 0; i < mesh.axis_count(); ++i) parts.push_back(axis_text(mesh, i));
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
  AxisWeights weights;
  for (const std::string& word : split_text(spaced, ' ')) {
    if (word.empty()) continue;
    if (std::ssize(axes) == kMaxMeshAxes)
      refuse_config("a mesh has more than " + std::to_string(kMaxMeshAxes) + " axes",
                    "a tensor has at most as many dims that axes divide", "join some of the axes");
    const size_t digits = std::min(word.find_first_of("0123456789"), word.size());
    std::vector<int64_t> numbers;
    for (const std::string& item : split_text(std::string_view(word).substr(digits), ':')) {
      int64_t number = 0;
      const char* last = item.data() + item.size();
      const auto [end, error] = std::from_chars(item.data(), last, number);
      if (error != std::errc{} || end != last)
        refuse_config("'" + std::string(text) + "' is not a mesh",
                      "'" + word + "' is not an axis and its size",
                      "write it as dp=2 tp=4, with weights as dp=2:1");
      numbers.push_back(number);
    }
    axes.push_back(word.substr(0, word[digits - (digits > 0)] == '=' ? digits - 1 : digits));
    const bool is_weighted = numbers.size() > 1;
    shape.push_back(is_weighted ? std::ssize(numbers) : numbers.front());
    weights.push_back(is_weighted ? std::move(numbers) : std::vector<int64_t>());
  }
  return Mesh(shape, std::move(axes), {}, std::move(weights));
}

}  // namespace tessera
