// Generators of ops that contract or reduce dims: dot_general, reduce, gather, scatter_add,
// attention.
#include <algorithm>
#include <cmath>

#include "tools/fuzz/internal/program_maker.h"

namespace tessera::fuzz {
namespace {

/// One letter for each dim of a and b; dims of equal extent may share one.
struct Letters {
  std::string a, b, out;
  int64_t summed = 1;  // product of the contracted extents
};

Letters random_letters(ProgramMaker& maker, const Shape& a, const Shape& b) {
  Letters letters;
  char next = 'a';
  for (int d = 0; d < a.size(); ++d) letters.a += next++;
  std::string free = letters.a;
  for (int64_t extent : b) {
    std::string equal;
    for (char letter : free)
      if (a[letter - 'a'] == extent) equal += letter;
    if (equal.empty() || maker.dice().chance(0.2)) {
      letters.b += next++;
      continue;
    }
    const char shared = equal[maker.dice().below(static_cast<int64_t>(equal.size()))];
    letters.b += shared;
    std::erase(free, shared);
    if (maker.dice().chance(0.25))
      letters.out += shared;  // a batch letter; others are summed over
    else
      letters.summed *= extent;
  }
  for (char letter : letters.a + letters.b)
    if ((letters.a.find(letter) == std::string::npos) !=
        (letters.b.find(letter) == std::string::npos))
      letters.out += letter;
  std::vector<char> order(letters.out.begin(), letters.out.end());
  maker.dice().shuffle(order);
  letters.out.assign(order.begin(), order.end());
  return letters;
}

int64_t result_elements(const Letters& letters, const Shape& a, const Shape& b) {
  int64_t count = 1;
  for (char letter : letters.out) {
    const size_t in_a = letters.a.find(letter);
    count *= in_a != std::string::npos ? a[static_cast<int>(in_a)]
                                       : b[static_cast<int>(letters.b.find(letter))];
  }
  return count;
}

bool add_dot(ProgramMaker& maker) {
  const Known a = maker.any_of_rank(DType::kF32, 0, 4);
  const Known b = maker.dice().chance(0.3)
                      ? maker.new_variable({DType::kF32, maker.random_shape(1, 3)})
                      : maker.any_of_rank(DType::kF32, 0, 4);
  const Letters letters = random_letters(maker, maker.shape(a), maker.shape(b));
  if (letters.out.size() > 4 ||
      result_elements(letters, maker.shape(a), maker.shape(b)) > maker.max_elements())
    return false;
  const double largest =
      a.bounds.magnitude() * b.bounds.magnitude() * static_cast<double>(letters.summed);
  const std::string spec = letters.a + "," + letters.b + "->" + letters.out;
  return maker.add(
      maker.make("dot_general", {a, b}, {{"spec", spec}}, {-largest, largest}, maker.exact()));
}

std::vector<int64_t> random_dims(ProgramMaker& maker, int rank, double probability) {
  std::vector<int64_t> dims;
  for (int d = 0; d < rank; ++d)
    if (maker.dice().chance(probability)) dims.push_back(d);
  return dims;
}

double count_over(const Shape& shape, const std::vector<int64_t>& dims) {
  double count = 1;
  for (int64_t dim : dims) count *= static_cast<double>(shape[static_cast<int>(dim)]);
  return count;
}

bool add_sum(ProgramMaker& maker) {
  const Known x = maker.any(maker.dice().chance(0.85) ? DType::kF32 : DType::kI32);
  const std::vector<int64_t> dims = random_dims(maker, maker.shape(x).size(), 0.5);
  const double count = count_over(maker.shape(x), dims);
  const Bounds bounds{x.bounds.low * count, x.bounds.high * count};
  const bool whole = x.whole && (maker.exact() || maker.type(x).dtype == DType::kI32);
  return maker.add(
      maker.make("reduce", {x}, {{"op", std::string("sum")}, {"dims", dims}}, bounds, whole));
}

/// A maximum or minimum. Its gradient divides by the number of equal elements, so it is not in the
/// exact subset.
bool add_extreme(ProgramMaker& maker) {
  Known x = maker.any(maker.dice().chance(0.8) ? DType::kF32 : DType::kI32);
  if (maker.exact()) x = without_gradient(maker, x);
  const std::string op = maker.dice().chance(0.5) ? "max" : "min";
  return maker.add(maker.make(
      "reduce", {x}, {{"op", op}, {"dims", random_dims(maker, maker.shape(x).size(), 0.5)}},
      x.bounds, x.whole));
}

/// A product over one dim, of numbers near 1, or of 1, 0 and -1.
bool add_product(ProgramMaker& maker) {
  Known x = maker.any_of_rank(DType::kF32, 1, kMaxRank);
  const std::vector<int64_t> dims{maker.dice().below(maker.shape(x).size())};
  double largest = 1;
  if (maker.exact()) {
    x = without_gradient(maker, bounded(maker, x, 1));
  } else {
    x = positive(maker, x);
    largest = std::pow(std::max(x.bounds.high, 1 / x.bounds.low), count_over(maker.shape(x), dims));
    if (largest > 1e4) return false;
  }
  return maker.add(maker.make("reduce", {x}, {{"op", std::string("prod")}, {"dims", dims}},
                              {-largest, largest}, maker.exact()));
}

bool add_any(ProgramMaker& maker) {
  const Known x = maker.any(DType::kBool);
  const std::string op = maker.dice().chance(0.5) ? "any" : "all";
  return maker.add(maker.make(
      "reduce", {x}, {{"op", op}, {"dims", random_dims(maker, maker.shape(x).size(), 0.6)}}, {0, 1},
      true, false));
}

/// Row numbers, from one before the first to one after the last.
bool add_gather(ProgramMaker& maker) {
  const Known table =
      maker.any_of_rank(maker.dice().chance(0.85) ? DType::kF32 : DType::kI32, 1, 3);
  const Known ids = random_ids(maker, maker.shape(table)[0], maker.random_shape(0, 2));
  if (element_count(maker.shape(ids)) * element_count(maker.shape(table)) >
      4 * maker.max_elements())
    return false;
  const Bounds bounds{std::min(table.bounds.low, 0.0), std::max(table.bounds.high, 0.0)};
  return maker.add(maker.make("gather", {table, ids}, {}, bounds, table.whole));
}

bool add_scatter_add(ProgramMaker& maker) {
  const Known updates = maker.any_of_rank(DType::kF32, 0, 4);
  Shape ids_shape;
  for (int64_t extent : maker.shape(updates)) {
    if (ids_shape.size() == 2 || maker.dice().chance(0.3)) break;
    ids_shape.push_back(extent);
  }
  const int64_t rows = maker.dice().between(1, 7);
  const Known ids = random_ids(maker, rows, ids_shape);
  const double largest = updates.bounds.magnitude() * static_cast<double>(element_count(ids_shape));
  return maker.add(maker.make("scatter_add", {ids, updates}, {{"rows", rows}}, {-largest, largest},
                              maker.exact()));
}

bool add_attention(ProgramMaker& maker) {
  if (maker.exact()) return false;
  const Shape q_shape{maker.dice().between(1, 3), maker.random_extent(), maker.dice().between(1, 3),
                      maker.dice().between(1, 4)};
  const Shape k_shape{q_shape[0], maker.random_extent(), q_shape[2], q_shape[3]};
  const Known q = maker.of_type({DType::kF32, q_shape});
  const Known k = maker.of_type({DType::kF32, k_shape}), v = maker.of_type({DType::kF32, k_shape});
  const auto result = maker.builder().attention(q.id, k.id, v.id, maker.dice().chance(0.5), 0.5);
  const bool trained = q.trained || k.trained || v.trained;
  // The second result is for the gradient of the first: no gradient may flow through it.
  const double largest =
      q.bounds.magnitude() * k.bounds.magnitude() * static_cast<double>(q_shape[3]) + 3;
  maker.add({maker.builder().stop_gradient(result.log_sum_exp), {-largest, largest}, false, false});
  return maker.add({result.out, v.bounds, false, trained});
}

constexpr OpGenerator kContractionOps[] = {{"dot", 16, add_dot},
                                           {"sum", 7, add_sum},
                                           {"extreme", 5, add_extreme},
                                           {"product", 2, add_product},
                                           {"any", 2, add_any},
                                           {"gather", 5, add_gather},
                                           {"scatter_add", 4, add_scatter_add},
                                           {"attention", 6, add_attention}};

}  // namespace

std::span<const OpGenerator> contraction_ops() {
  return kContractionOps;
}

}  // namespace tessera::fuzz
