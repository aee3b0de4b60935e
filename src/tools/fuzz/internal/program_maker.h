// Builds random programs: a pool of values that ops may use, with their known properties, and
// generators that add ops. Private to this module.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/ops/builder.h"
#include "tools/fuzz/fuzz_case.h"
#include "tools/fuzz/internal/dice.h"

namespace tessera::fuzz {

/// An interval that holds every element.
struct Bounds {
  double low = 0;
  double high = 0;

  double magnitude() const { return std::max(std::abs(low), std::abs(high)); }
};
/// The interval of op(x, y) for an op that is monotonic in each operand, from the corners.
template <typename Op>
Bounds corners(const Bounds& x, const Bounds& y, Op op) {
  const double c[] = {op(x.low, y.low), op(x.low, y.high), op(x.high, y.low), op(x.high, y.high)};
  return {*std::min_element(std::begin(c), std::end(c)),
          *std::max_element(std::begin(c), std::end(c))};
}

/// A value that later ops may use.
struct Known {
  ValueId id;
  Bounds bounds;
  /// Does it hold whole numbers that rounding cannot change? Then discontinuous ops may use it.
  bool whole = false;
  bool trained = false;  // does a gradient flow from it to a variable?
};

/// The state that generators work with. A large value gets one more op that bounds it.
class ProgramMaker {
 public:
  /// With several micro-batches dim 0 of every input is a multiple of their number.
  ProgramMaker(uint64_t seed, bool exact, int64_t micro_batches);

  Dice& dice() { return dice_; }
  Builder& builder() { return builder_; }
  bool exact() const { return exact_; }
  /// The types are copies, because a growing graph moves its values.
  TensorType type(const Known& x) const { return builder_.type(x.id); }
  Shape shape(const Known& x) const { return type(x).shape; }

  /// A value of the pool, preferably a recent one; a new input when there is none.
  Known any(DType dtype);
  Known any_of_rank(DType dtype, int min_rank, int max_rank);
  /// A value of exactly this type: one of the pool, one made from another value, or a new input.
  Known of_type(const TensorType& type);
  Known new_input(const TensorType& type);
  Known new_input(const TensorType& type, const Fill& fill);
  Known new_variable(const TensorType& type);

  /// The result of `kind`. It is trained when an operand is trained and `flows` is true.
  Known make(std::string_view kind, const std::vector<Known>& inputs, Attributes attributes,
             Bounds bounds, bool whole, bool flows = true);
  /// Makes a value available to later ops. Returns false when it has too many elements.
  bool add(const Known& x);

  Shape random_shape(int min_rank, int max_rank);
  int64_t random_extent() { return dice_.pick(extents_); }
  /// The largest number of elements of a value that later ops may use.
  int64_t max_elements() const { return max_elements_; }
  /// The i32[] that seeds random numbers.
  ValueId step();

  std::vector<Known>& pool() { return pool_; }
  std::map<std::string, Fill>& fills() { return fills_; }
  Graph& graph() { return graph_; }

 private:
  Fill random_fill(DType dtype);

  Dice dice_;
  bool exact_;
  int64_t micro_batches_;
  Graph graph_;
  Builder builder_;
  std::vector<int64_t> extents_;  // few different ones, so that shapes match
  int64_t max_elements_;
  std::vector<Known> pool_;
  std::map<std::string, Fill> fills_;
};

/// An f32 value of the pool that discontinuous ops may use: whole, and without a gradient.
Known any_whole(ProgramMaker& maker);
/// x, after a stop_gradient when a gradient would flow.
Known without_gradient(ProgramMaker& maker, const Known& x);
/// A value of at least 0.25 and at most 16, made from x.
Known positive(ProgramMaker& maker, const Known& x);
/// A value within [-limit, limit], made from x.
Known bounded(ProgramMaker& maker, const Known& x, double limit);
/// The elements of x that fit into `shape`, with zeros elsewhere. It is made by reshape, slice, pad
/// and broadcast.
Known with_shape(ProgramMaker& maker, const Known& x, const Shape& shape);
/// Indices of rows in a dim of `extent`, and a few that are outside of it.
Known random_ids(ProgramMaker& maker, int64_t extent, const Shape& shape);

/// A shape as an attribute.
std::vector<int64_t> list_of(const Shape& shape);

/// Adds an op. Its function returns false when the pool does not allow the op now.
struct OpGenerator {
  std::string_view name;
  int weight;
  bool (*add)(ProgramMaker&);
};
std::span<const OpGenerator> elementwise_ops();
std::span<const OpGenerator> integer_ops();
std::span<const OpGenerator> movement_ops();
std::span<const OpGenerator> contraction_ops();
std::span<const OpGenerator> spatial_ops();
std::span<const OpGenerator> dynamic_ops();
std::span<const OpGenerator> control_ops();

}  // namespace tessera::fuzz
