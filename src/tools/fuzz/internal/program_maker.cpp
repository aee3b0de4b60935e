#include "tools/fuzz/internal/program_maker.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/autodiff/optimizer.h"

namespace tessera::fuzz {
namespace {

constexpr int64_t kMaxElements = 400;
// A few programs are wider than one vector of every kernel, and have sums that are reduced and
// gathered in two rounds.
constexpr int64_t kMaxElementsOfWide = 4000;
constexpr double kWidePrograms = 0.06;
constexpr double kExactLimit = 6;  // for one value: products of several values stay far below 2^24
constexpr double kGeneralLimit = 4;
// A value up to this factor above the limit may be used once more before it is bounded.
constexpr double kMaxExcess = 25;

}  // namespace

ProgramMaker::ProgramMaker(uint64_t seed, bool exact, int64_t micro_batches)
    : dice_(seed, "program"), exact_(exact), micro_batches_(micro_batches), builder_(graph_, seed) {
  const int64_t count = dice_.between(2, 3);
  for (int64_t i = 0; i < count; ++i) extents_.push_back(dice_.between(1, 7));
  if (micro_batches_ > 1) extents_.push_back(micro_batches_ * dice_.between(1, 2));
  const bool wide = dice_.chance(kWidePrograms);
  max_elements_ = wide ? kMaxElementsOfWide : kMaxElements;
  if (wide) extents_.push_back(dice_.between(30, 60));
  if (wide) extents_.push_back(dice_.between(30, 60));
}

Shape ProgramMaker::random_shape(int min_rank, int max_rank) {
  Shape shape;
  const int64_t rank = dice_.between(min_rank, max_rank);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t extent = random_extent();
    shape.push_back(element_count(shape) * extent > max_elements_ ? 1 : extent);
  }
  return shape;
}

Fill ProgramMaker::random_fill(DType dtype) {
  if (dtype == DType::kI32) return {true, -3, 6};
  if (dtype == DType::kBool) return {true, 0, 1};
  if (exact_ || dice_.chance(0.3)) return {true, -3, 3};
  return dice_.chance(0.2) ? Fill{false, 0.25, 2} : Fill{false, -1, 1};
}

Known ProgramMaker::new_input(const TensorType& type) {
  return new_input(type, random_fill(type.dtype));
}

Known ProgramMaker::new_input(const TensorType& type, const Fill& fill) {
  // A value that micro-batches cannot divide is kept from step to step.
  const bool divides = type.shape.empty() || type.shape[0] % micro_batches_ == 0;
  const ValueId id = divides ? builder_.input("in", type)
                             : builder_.variable("kept", type, Initializer::constant(0), false);
  fills_[graph_.value(id).name] = fill;
  const Known x{id, {fill.low, fill.high}, fill.whole, false};
  add(x);
  return x;
}

Known ProgramMaker::new_variable(const TensorType& type) {
  const Fill fill = random_fill(type.dtype);
  Initializer initializer = Initializer::constant(static_cast<double>(dice_.between(0, 1)));
  if (type.dtype == DType::kF32 && !exact_)
    initializer = dice_.chance(0.5) ? Initializer::normal(0, 0.5) : Initializer::uniform(-1, 1);
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
  if (element_count(shape(x)) > max_elements_ || shape(x).size() > 5) return false;
  const double limit = exact_ ? kExactLimit : kGeneralLimit;
  const bool is_large = type(x).dtype != DType::kBool &&
                        x.bounds.magnitude() > limit * (type(x).dtype == DType::kI32 ? 4 : 1);
  // Bounding is not linear: if all results were bounded, no partial sum would pass through ops.
  const bool is_kept =
      !is_large || (x.bounds.magnitude() < limit * kMaxExcess && dice_.chance(0.5));
  pool_.push_back(is_kept ? x : bounded(*this, x, limit));
  return true;
}

Known ProgramMaker::make(std::string_view kind, const std::vector<Known>& inputs,
                         Attributes attributes, Bounds bounds, bool whole, bool flows) {
  std::vector<ValueId> ids;
  bool trained = false;
  for (const Known& input : inputs) {
    ids.push_back(input.id);
    trained = trained || input.trained;
  }
  return {builder_.op1(kind, std::move(ids), std::move(attributes)), bounds, whole,
          trained && flows};
}

Known ProgramMaker::any_of_rank(DType dtype, int min_rank, int max_rank) {
  std::vector<Known> fitting;
  for (const Known& x : pool_)
    if (type(x).dtype == dtype && shape(x).size() >= min_rank && shape(x).size() <= max_rank)
      fitting.push_back(x);
  if (fitting.empty() || dice_.chance(0.05))
    return new_input({dtype, random_shape(min_rank, std::min(max_rank, 4))});
  // The latest value makes chains, along which partial sums pass; earlier values make branches.
  if (dice_.chance(0.4)) return fitting.back();
  return dice_.pick(fitting);
}

Known ProgramMaker::any(DType dtype) {
  return any_of_rank(dtype, 0, kMaxRank);
}

Known ProgramMaker::of_type(const TensorType& wanted) {
  std::vector<Known> fitting;
  for (const Known& x : pool_)
    if (type(x) == wanted) fitting.push_back(x);
  if (!fitting.empty() && dice_.chance(0.7)) return dice_.pick(fitting);
  if (wanted.dtype == DType::kF32 && dice_.chance(0.6)) {
    const Known x = any(DType::kF32);
    if (element_count(shape(x)) > 0) return with_shape(*this, x, wanted.shape);
  }
  return dice_.chance(0.4) ? new_variable(wanted) : new_input(wanted);
}

Known bounded(ProgramMaker& maker, const Known& x, double limit) {
  if (x.bounds.magnitude() <= limit) return x;
  if (maker.type(x).dtype == DType::kI32) {
    const ValueId divisor = maker.builder().constant(maker.type(x), limit);
    return {maker.builder().op1("mod", {x.id, divisor}), {0, limit - 1}, true, false};
  }
  if (!maker.exact() && !x.whole) {
    if (maker.dice().chance(0.3)) return maker.make("tanh", {x}, {}, {-1, 1}, false);
    if (maker.dice().chance(0.5)) {
      const double scale = limit / x.bounds.magnitude();
      return maker.make("mul_scalar", {x}, {{"value", scale}},
                        {x.bounds.low * scale, x.bounds.high * scale}, false);
    }
  }
  const Known above =
      maker.make("max_scalar", {x}, {{"value", -limit}},
                 {std::max(x.bounds.low, -limit), std::max(x.bounds.high, -limit)}, x.whole);
  return maker.make("min_scalar", {above}, {{"value", limit}},
                    {std::min(above.bounds.low, limit), std::min(above.bounds.high, limit)},
                    x.whole);
}

Known without_gradient(ProgramMaker& maker, const Known& x) {
  if (!x.trained) return x;
  return maker.make("stop_gradient", {x}, {}, x.bounds, x.whole, false);
}

Known any_whole(ProgramMaker& maker) {
  std::vector<Known> fitting;
  for (const Known& x : maker.pool())
    if (maker.type(x).dtype == DType::kF32 && x.whole) fitting.push_back(x);
  if (fitting.empty())
    return maker.new_input({DType::kF32, maker.random_shape(0, 3)}, {true, -3, 3});
  return without_gradient(maker, maker.dice().pick(fitting));
}

Known positive(ProgramMaker& maker, const Known& x) {
  if (x.bounds.low >= 0.25 && x.bounds.high <= 16) return x;
  const Known small = bounded(maker, x, 3);
  const double largest = small.bounds.magnitude();
  const Known above = maker.dice().chance(0.5)
                          ? maker.make("square", {small}, {}, {0, largest * largest}, false)
                          : maker.make("logistic", {small}, {}, {0, 1}, false);
  return maker.make("add_scalar", {above}, {{"value", 0.5}}, {0.5, above.bounds.high + 0.5}, false);
}

namespace {

/// The element at the origin as a scalar, or x with `rank` dims: its leading dims are merged into
/// one, or dims of extent 1 are added in front.
Known with_rank(ProgramMaker& maker, const Known& x, int rank) {
  const Shape from = maker.shape(x);
  if (from.size() == rank) return x;
  if (rank == 0) {
    const std::vector<int64_t> zeros(static_cast<size_t>(from.size()), 0), ones(zeros.size(), 1);
    const Known first = maker.make(
        "slice", {x}, {{"start", zeros}, {"limit", ones}, {"stride", ones}}, x.bounds, x.whole);
    return maker.make("reshape", {first}, {{"shape", std::vector<int64_t>{}}}, x.bounds, x.whole);
  }
  Shape wanted = Dims::filled(std::max(rank - from.size(), 0), 1);
  const int merged = std::max(from.size() - rank, 0);
  int64_t product = 1;
  for (int d = 0; d < from.size(); ++d) {
    product *= from[d];
    if (d < merged) continue;
    wanted.push_back(product);
    product = 1;
  }
  return maker.make("reshape", {x}, {{"shape", list_of(wanted)}}, x.bounds, x.whole);
}

}  // namespace

Known with_shape(ProgramMaker& maker, const Known& x, const Shape& wanted) {
  const auto rank = static_cast<size_t>(wanted.size());
  Known y = with_rank(maker, x, wanted.size());
  Shape cut = maker.shape(y), grown = wanted;
  for (int d = 0; d < wanted.size(); ++d) {
    cut[d] = std::min(cut[d], wanted[d]);
    if (cut[d] == 1 && maker.dice().chance(0.7)) grown[d] = 1;  // broadcast at the end
  }
  const std::vector<int64_t> zeros(rank, 0), ones(rank, 1);
  if (cut != maker.shape(y))
    y = maker.make("slice", {y}, {{"start", zeros}, {"limit", list_of(cut)}, {"stride", ones}},
                   y.bounds, y.whole);
  if (grown != cut)
    y = maker.make("pad", {y}, {{"low", zeros}, {"shape", list_of(grown)}, {"value", 0.0}},
                   {std::min(y.bounds.low, 0.0), std::max(y.bounds.high, 0.0)}, y.whole);
  if (grown != wanted) {
    std::vector<int64_t> dims(rank);
    std::iota(dims.begin(), dims.end(), 0);
    y = maker.make("broadcast", {y}, {{"shape", list_of(wanted)}, {"dims", dims}}, y.bounds,
                   y.whole);
  }
  return y;
}

Known random_ids(ProgramMaker& maker, int64_t extent, const Shape& shape) {
  if (maker.dice().chance(0.4)) return maker.of_type({DType::kI32, shape});
  return maker.new_input({DType::kI32, shape}, {true, -1, static_cast<double>(extent)});
}

std::vector<int64_t> list_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

}  // namespace tessera::fuzz
