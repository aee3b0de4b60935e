// How a random program grows: a pool of values that ops may use, with what is known of them, and
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

#include "fuzz/dice.h"
#include "fuzz/fuzz_case.h"
#include "ops/builder.h"

namespace tessera::fuzz {

/// An interval that holds every element.
struct Bounds {
  double low = 0;
  double high = 0;

  double magnitude() const { return std::max(std::abs(low), std::abs(high)); }
};
/// The interval of op(x, y) for an op that is monotonic in each operand: its corners.
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
  /// It holds whole numbers that rounding cannot change: discontinuous ops may use it.
  bool whole = false;
  bool trained = false;  // a gradient flows from it to a variable
};

/// What a generator works with. One more op bounds a value that is large.
class ProgramMaker {
 public:
  /// With several micro-batches dim 0 of every input is a multiple of their number.
  ProgramMaker(uint64_t seed, bool exact, int64_t micro_batches);

  Dice& dice() { return dice_; }
  Builder& builder() { return builder_; }
  bool exact() const { return exact_; }
  /// Copies: a graph that grows moves its values.
  TensorType type(const Known& x) const { return builder_.type(x.id); }
  Shape shape(const Known& x) const { return type(x).shape; }

  /// A value of the pool, preferably a recent one; a new input when there is none.
  Known any(DType dtype);
  Known any_of_rank(DType dtype, int min_rank, int max_rank);
  /// A value of exactly this type: of the pool, made from one that is not, or new.
  Known of_type(const TensorType& type);
  Known new_input(const TensorType& type);
  Known new_input(const TensorType& type, const Fill& fill);
  Known new_variable(const TensorType& type);

  /// The result of `kind`; it is trained when an operand is and `flows`.
  Known make(std::string_view kind, const std::vector<Known>& inputs, Attributes attributes,
             Bounds bounds, bool whole, bool flows = true);
  /// Makes a value available to later ops. False when it has too many elements.
  bool add(const Known& x);

  Shape random_shape(int min_rank, int max_rank);
  int64_t random_extent() { return dice_.pick(extents_); }
  /// Of a value that later ops may use.
  int64_t max_elements() const { return max_elements_; }
  /// i32[] that seeds random numbers.
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
  std::vector<int64_t> extents_;  // few, so that shapes meet
  int64_t max_elements_;
  std::vector<Known> pool_;
  std::map<std::string, Fill> fills_;
};

/// An f32 value of the pool that discontinuous ops may use: whole, and without a gradient.
Known any_whole(ProgramMaker& maker);
/// x, behind a stop_gradient when a gradient would flow.
Known without_gradient(ProgramMaker& maker, const Known& x);
/// A value made from x of at least 0.25 and at most 16.
Known positive(ProgramMaker& maker, const Known& x);
/// A value made from x within [-limit, limit].
Known bounded(ProgramMaker& maker, const Known& x, double limit);
/// The elements of x that fit into `shape`, zeros elsewhere: by reshape, slice, pad and broadcast.
Known with_shape(ProgramMaker& maker, const Known& x, const Shape& shape);

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
