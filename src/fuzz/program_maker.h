// How a random program grows: a pool of values that may be used, with what is known of them, and
// recipes that add ops. Not for other rooms.
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
  bool whole =
      false;  // holds whole numbers, and rounding cannot make them others: fit for ops that jump
  bool trained = false;  // a gradient flows from it to a variable
};

/// What a recipe works with. A value that it adds is kept tame: large ones are squeezed by one more
/// op.
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

  /// A value of the pool, rather a young one; a new input when there is none.
  Known any(DType dtype);
  Known any_of_rank(DType dtype, int least, int most);
  /// A value of exactly this type: of the pool, made from one that is not, or new.
  Known of_type(const TensorType& type);
  /// f32 that jumping ops may look at: whole, and no gradient asks for the way through them.
  Known any_whole();
  /// Behind a stop_gradient when a gradient would flow.
  Known still(const Known& x);
  /// At least 0.25 and at most 16.
  Known positive(const Known& x);
  /// Within [-limit, limit].
  Known squeezed(const Known& x, double limit);
  Known new_input(const TensorType& type);
  Known new_input(const TensorType& type, const Fill& fill);
  Known new_variable(const TensorType& type);
  /// x with the elements that fit into `shape`, zeros elsewhere: by reshape, slice, pad and
  /// broadcast.
  Known fitted(const Known& x, const Shape& shape);

  /// The result of `kind`; it is trained when an operand is and `flows`.
  Known make(std::string_view kind, const std::vector<Known>& inputs, Attributes attributes,
             Bounds bounds, bool whole, bool flows = true);
  /// Makes a value available to later ops. False when it has too many elements.
  bool add(const Known& x);

  Shape random_shape(int least_rank, int most_rank);
  int64_t random_extent() { return dice_.pick(extents_); }
  /// Of a value that later ops may use.
  int64_t most_elements() const { return most_elements_; }
  /// i32[] that random numbers are drawn by.
  ValueId step();

  std::vector<Known>& pool() { return pool_; }
  std::map<std::string, Fill>& fills() { return fills_; }
  Graph& graph() { return graph_; }

 private:
  Fill random_fill(DType dtype);
  Known with_rank(const Known& x, int rank);

  Dice dice_;
  bool exact_;
  int64_t micro_batches_;
  Graph graph_;
  Builder builder_;
  std::vector<int64_t> extents_;  // few, so that shapes meet
  int64_t most_elements_;
  std::vector<Known> pool_;
  std::map<std::string, Fill> fills_;
};

/// Adds an op, or returns false when the pool does not allow it now.
struct Recipe {
  std::string_view name;
  int weight;
  bool (*cook)(ProgramMaker&);
};
std::span<const Recipe> elementwise_recipes();
std::span<const Recipe> integer_recipes();
std::span<const Recipe> movement_recipes();
std::span<const Recipe> contraction_recipes();
std::span<const Recipe> spatial_recipes();
std::span<const Recipe> dynamic_recipes();
std::span<const Recipe> control_recipes();

}  // namespace tessera::fuzz
