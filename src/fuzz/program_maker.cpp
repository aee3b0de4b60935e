#include "fuzz/program_maker.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autodiff/optimizer.h"

namespace tessera::fuzz {
namespace {

constexpr int64_t kMostElements = 400;
constexpr double kExactLimit = 6;     // of one value: products of several stay far below 2^24
constexpr double kGeneralLimit = 4;

std::vector<int64_t> list(const Shape& shape) { return {shape.begin(), shape.end()}; }

}  // namespace

ProgramMaker::ProgramMaker(uint64_t seed, bool exact) : dice_(seed, "program"), exact_(exact), builder_(graph_, seed) {
  const int64_t count = dice_.between(2, 3);
  for (int64_t i = 0; i < count; ++i) extents_.push_back(dice_.between(1, 7));
}

Shape ProgramMaker::random_shape(int least_rank, int most_rank) {
  Shape shape;
  const int64_t rank = dice_.between(least_rank, most_rank);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t extent = random_extent();
    shape.push_back(element_count(shape) * extent > kMostElements ? 1 : extent);
  }
  return shape;
}

Fill ProgramMaker::random_fill(DType dtype) {
  if (dtype == DType::kI32) return {true, -3, 6};
  if (dtype == DType::kBool) return {true, 0, 1};
  if (exact_ || dice_.chance(0.3)) return {true, -3, 3};
  return dice_.chance(0.2) ? Fill{false, 0.25, 2} : Fill{false, -1, 1};
}

Known ProgramMaker::new_input(const TensorType& type) { return new_input(type, random_fill(type.dtype)); }

Known ProgramMaker::new_input(const TensorType& type, const Fill& fill) {
  const ValueId id = builder_.input("in", type);
  fills_[graph_.value(id).name] = fill;
  const Known x{id, {fill.low, fill.high}, fill.whole, false};
  add(x);
  return x;
}

Known ProgramMaker::new_variable(const TensorType& type) {
  const Fill fill = random_fill(type.dtype);
  Initializer initializer = Initializer::constant(static_cast<double>(dice_.between(0, 1)));
  if (type.dtype == DType::kF32 && !exact_) initializer = dice_.chance(0.5) ? Initializer::normal(0, 0.5) : Initializer::uniform(-1, 1);
  const ValueId id = builder_.variable("w", type, initializer, type.dtype == DType::kF32);
  Known x{id, {-3, 3}, type.dtype != DType::kF32 || exact_, type.dtype == DType::kF32};
  if (exact_ || type.dtype != DType::kF32) {
    if (dice_.chance(0.8)) fills_[graph_.value(id).name] = fill;
    x.bounds = {std::min(fill.low, 0.0), std::max(fill.high, 1.0)};
  }
  add(x);
  return x;
}

ValueId ProgramMaker::step() {
  if (const auto found = graph_.find_value(kStepInput)) return *found;
  const ValueId id = builder_.input(kStepInput, {DType::kI32, {}});
  fills_[std::string(kStepInput)] = {true, 0, 9};
  return id;
}

bool ProgramMaker::add(const Known& x) {
  if (element_count(shape(x)) > kMostElements || shape(x).size() > 5) return false;
  const double limit = exact_ ? kExactLimit : kGeneralLimit;
  const bool wild = type(x).dtype != DType::kBool && x.bounds.magnitude() > limit * (type(x).dtype == DType::kI32 ? 4 : 1);
  if (wild) pool_.push_back(squeezed(x, limit));
  if (!wild || dice_.chance(0.1)) pool_.push_back(x);
  return true;
}

Known ProgramMaker::make(std::string_view kind, const std::vector<Known>& inputs, Attributes attributes, Bounds bounds, bool whole, bool flows) {
  std::vector<ValueId> ids;
  bool trained = false;
  for (const Known& input : inputs) {
    ids.push_back(input.id);
    trained = trained || input.trained;
  }
  return {builder_.op1(kind, std::move(ids), std::move(attributes)), bounds, whole, trained && flows};
}

Known ProgramMaker::squeezed(const Known& x, double limit) {
  if (x.bounds.magnitude() <= limit) return x;
  if (type(x).dtype == DType::kI32) {
    const ValueId divisor = builder_.constant(type(x), limit);
    return {builder_.op1("mod", {x.id, divisor}), {0, limit - 1}, true, false};
  }
  if (!exact_ && !x.whole) {
    if (dice_.chance(0.3)) return make("tanh", {x}, {}, {-1, 1}, false);
    if (dice_.chance(0.5)) {
      const double scale = limit / x.bounds.magnitude();
      return make("mul_scalar", {x}, {{"value", scale}}, {x.bounds.low * scale, x.bounds.high * scale}, false);
    }
  }
  const Known above = make("max_scalar", {x}, {{"value", -limit}}, {std::max(x.bounds.low, -limit), std::max(x.bounds.high, -limit)}, x.whole);
  return make("min_scalar", {above}, {{"value", limit}}, {std::min(above.bounds.low, limit), std::min(above.bounds.high, limit)}, x.whole);
}

Known ProgramMaker::any_of_rank(DType dtype, int least, int most) {
  std::vector<Known> fitting;
  for (const Known& x : pool_)
    if (type(x).dtype == dtype && shape(x).size() >= least && shape(x).size() <= most) fitting.push_back(x);
  if (fitting.empty() || dice_.chance(0.05)) return new_input({dtype, random_shape(least, std::min(most, 4))});
  // Young values make deep graphs, old ones branches.
  const auto count = static_cast<int64_t>(fitting.size());
  return fitting[static_cast<size_t>(std::max(dice_.below(count), dice_.chance(0.5) ? dice_.below(count) : 0))];
}

Known ProgramMaker::any(DType dtype) { return any_of_rank(dtype, 0, kMaxRank); }

Known ProgramMaker::of_type(const TensorType& wanted) {
  std::vector<Known> fitting;
  for (const Known& x : pool_)
    if (type(x) == wanted) fitting.push_back(x);
  if (!fitting.empty() && dice_.chance(0.7)) return dice_.pick(fitting);
  if (wanted.dtype == DType::kF32 && dice_.chance(0.6)) return fitted(any(DType::kF32), wanted.shape);
  return dice_.chance(0.4) ? new_variable(wanted) : new_input(wanted);
}

Known ProgramMaker::still(const Known& x) {
  if (!x.trained) return x;
  return make("stop_gradient", {x}, {}, x.bounds, x.whole, false);
}

Known ProgramMaker::any_whole() {
  std::vector<Known> fitting;
  for (const Known& x : pool_)
    if (type(x).dtype == DType::kF32 && x.whole) fitting.push_back(x);
  if (fitting.empty()) return new_input({DType::kF32, random_shape(0, 3)}, {true, -3, 3});
  return still(dice_.pick(fitting));
}

Known ProgramMaker::positive(const Known& x) {
  if (x.bounds.low >= 0.25 && x.bounds.high <= 16) return x;
  const Known small = squeezed(x, 3);
  const double most = small.bounds.magnitude();
  const Known above = dice_.chance(0.5) ? make("square", {small}, {}, {0, most * most}, false) : make("logistic", {small}, {}, {0, 1}, false);
  return make("add_scalar", {above}, {{"value", 0.5}}, {0.5, above.bounds.high + 0.5}, false);
}

Known ProgramMaker::fitted(const Known& x, const Shape& wanted) {
  const int rank = wanted.size();
  Known y = x;
  // As many dims as wanted: the leading ones are merged into one, or new ones of extent 1 stand in front.
  if (shape(y).size() != rank) {
    Shape apart;
    for (int d = 0; d < rank - shape(y).size(); ++d) apart.push_back(1);
    const int merged = std::max(shape(y).size() - rank, 0);
    int64_t product = 1;
    for (int d = 0; d < shape(y).size(); ++d) {
      product *= shape(y)[d];
      if (d < merged && rank > 0) continue;
      if (rank > 0) apart.push_back(product);
      product = rank > 0 ? 1 : product;
    }
    if (rank == 0) {
      std::vector<int64_t> start(static_cast<size_t>(shape(y).size()), 0);
      const std::vector<int64_t> one(start.size(), 1);
      y = make("slice", {y}, {{"start", start}, {"limit", one}, {"stride", one}}, y.bounds, y.whole);
    }
    y = make("reshape", {y}, {{"shape", list(apart)}}, y.bounds, y.whole);
  }
  Shape cut = shape(y), grown = wanted;
  for (int d = 0; d < rank; ++d) {
    cut[d] = std::min(cut[d], wanted[d]);
    if (cut[d] == 1 && dice_.chance(0.7)) grown[d] = 1;  // broadcast at the end
  }
  const std::vector<int64_t> zeros(static_cast<size_t>(rank), 0);
  if (cut != shape(y)) {
    const std::vector<int64_t> ones(static_cast<size_t>(rank), 1);
    y = make("slice", {y}, {{"start", zeros}, {"limit", list(cut)}, {"stride", ones}}, y.bounds, y.whole);
  }
  if (grown != cut)
    y = make("pad", {y}, {{"low", zeros}, {"shape", list(grown)}, {"value", 0.0}}, {std::min(y.bounds.low, 0.0), std::max(y.bounds.high, 0.0)}, y.whole);
  if (grown != wanted) {
    std::vector<int64_t> dims(static_cast<size_t>(rank));
    std::iota(dims.begin(), dims.end(), 0);
    y = make("broadcast", {y}, {{"shape", list(wanted)}, {"dims", dims}}, y.bounds, y.whole);
  }
  return y;
}

}  // namespace tessera::fuzz
