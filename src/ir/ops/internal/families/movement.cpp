// Operators that only move elements: broadcast, reshape and transpose here; slice, pad and concat
// in movement_window.cpp.
#include "ir/ops/internal/families/movement.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <set>

#include "ir/ops/builder.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace detail {

void expect_entry_per_dim(std::string_view kind, const OpView& op, std::string_view attribute) {
  const size_t given = op.attributes.integers(attribute).size();
  const size_t rank = op.inputs[0].shape.size();
  if (given == rank) return;
  refuse(kind, op,
         std::string(attribute) + " has " + std::to_string(given) + " entries for x " +
             to_text(op.inputs[0]),
         std::string(attribute) + " says something about every dim of x",
         "give " + std::to_string(rank) + " entries");
}

}  // namespace detail

namespace {

using detail::Gradients;

// broadcast

void check_broadcast_dim(const OpView& op, const Shape& shape, int dim) {
  const std::vector<int64_t>& dims = op.attributes.integers("dims");
  const size_t i = dim;
  const std::string wording = "dims " + to_text(Attribute(dims)) + " do not place x " +
                              to_text(op.inputs[0]) + " in [" + to_text(shape) + "]";
  if (dims[i] < 0 || dims[i] >= shape.size() || (i > 0 && dims[i] <= dims[i - 1]))
    detail::refuse("broadcast", op, wording,
                   "dim i of x becomes dim dims[i] of the result, in ascending order",
                   "list ascending dims of the result; transpose x first to change their order");
  const int64_t from = op.inputs[0].shape[dim];
  const int64_t to = shape[dims[i]];
  if (from != to && from != 1)
    detail::refuse("broadcast", op, wording,
                   "dim " + std::to_string(dim) + " of x is " + std::to_string(from) + ", dim " +
                       std::to_string(dims[i]) + " of the result is " + std::to_string(to) +
                       "; only an extent of 1 grows",
                   "correct dims, or check the layer that produces x");
}

std::vector<TensorType> infer_broadcast(const OpView& op) {
  detail::expect_operands("broadcast", op, 1);
  detail::expect_entry_per_dim("broadcast", op, "dims");
  const Shape shape = detail::shape_attribute("broadcast", op);
  for (int d = 0; d < op.inputs[0].shape.size(); ++d) check_broadcast_dim(op, shape, d);
  return {{op.inputs[0].dtype, shape}};
}

/// Every dim of the result is a factor. A dim of x shares it unless it grows.
ShardingRule rule_broadcast(const OpView& op) {
  const Shape shape = detail::result_shape(op);
  const std::vector<int64_t>& dims = op.attributes.integers("dims");
  ShardingRule rule;
  rule.outputs = {detail::add_factors(rule, shape)};
  OperandFactors x;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool grows = op.inputs[0].shape[i] != shape[dims[i]];
    x.push_back({grows ? -1 : static_cast<int>(dims[i]), 1});
  }
  rule.inputs = {x};
  rule.linear = {{0}};
  return rule;
}

KernelCall kernel_broadcast(const OpView& op, std::span<const Split>) {
  KernelCall call = detail::kernel_call("broadcast");
  for (int64_t dim : op.attributes.integers("dims")) call.ints.emplace_back(dim);
  return call;
}

void reference_broadcast(const ReferenceCall& call) {
  const std::vector<int64_t>& dims = call.op.attributes.integers("dims");
  const ReferenceTensor& x = *call.inputs[0];
  const Shape& shape = x.type.shape;
  detail::fill_result(call, [&](const Dims& index) {
    Dims source = Dims::filled(shape.size(), 0);
    for (int d = 0; d < shape.size(); ++d) source[d] = shape[d] == 1 ? 0 : index[dims[d]];
    return x.values[row_major_index(source, shape)];
  });
}

/// An element that was copied to many positions gets the sum of their gradients.
Gradients gradient_broadcast(Builder& builder, const GradientCall& call) {
  const Shape from = builder.shape(call.op.inputs[0]);
  const Shape to = builder.shape(call.op.outputs[0]);
  const std::vector<int64_t>& dims = call.op.attributes.integers("dims");
  std::vector<int64_t> summed(to.size());
  std::iota(summed.begin(), summed.end(), 0);
  for (size_t i = 0; i < dims.size(); ++i)
    if (from[i] == to[dims[i]]) std::erase(summed, dims[i]);
  const ValueId flow = call.output_gradients.at(0).value();
  if (summed.empty()) return {flow};
  const bool dim_returns_to_one = to.size() - std::ssize(summed) != from.size();
  const ValueId sum = builder.reduce_sum(flow, summed, dim_returns_to_one ? "sum" : "x");
  return {dim_returns_to_one ? builder.reshape(sum, from, "x") : sum};
}

// reshape

std::vector<TensorType> infer_reshape(const OpView& op) {
  detail::expect_operands("reshape", op, 1);
  const Shape shape = detail::shape_attribute("reshape", op);
  const int64_t have = element_count(op.inputs[0].shape);
  const int64_t want = element_count(shape);
  if (have != want)
    detail::refuse(
        "reshape", op, "x " + to_text(op.inputs[0]) + " does not fit [" + to_text(shape) + "]",
        "x has " + std::to_string(have) + " elements and the shape " + std::to_string(want),
        "check the extents of the shape, or the layer that produces x");
  return {{op.inputs[0].dtype, shape}};
}

/// The dims [in_begin, in_end) of x and [out_begin, out_end) of the result, which hold the same
/// elements.
struct DimGroup {
  int in_begin, in_end, out_begin, out_end;
};

/// The smallest groups with equal products. Extents of 1 between groups belong to none.
///   requires  equal numbers of elements, not 0
std::vector<DimGroup> match_dims(const Shape& in, const Shape& out) {
  std::vector<DimGroup> groups;
  int i = 0, j = 0;
  while (i < in.size() && j < out.size()) {
    if ((in[i] == 1) != (out[j] == 1)) {
      ++(in[i] == 1 ? i : j);
      continue;
    }
    DimGroup group{i, i + 1, j, j + 1};
    int64_t in_product = in[i], out_product = out[j];
    while (in_product != out_product) {
      if (in_product < out_product)
        in_product *= in[group.in_end++];
      else
        out_product *= out[group.out_end++];
    }
    groups.push_back(group);
    i = group.in_end;
    j = group.out_end;
  }
  return groups;
}

/// A run of consecutive elements as a loop: `outer` times `extent` steps of `inner` elements.
struct Loop {
  int64_t outer, extent, inner;
};

/// The dims [begin, end) of a group as loops, outermost first.
std::vector<Loop> loops_of(const Shape& shape, int begin, int end) {
  std::vector<Loop> loops;
  int64_t outer = 1, inner = 1;
  for (int d = begin; d < end; ++d) inner *= shape[d];
  for (int d = begin; d < end; ++d) {
    inner /= shape[d];
    loops.push_back({outer, shape[d], inner});
    outer *= shape[d];
  }
  return loops;
}

/// The finest loops of which the dims of both sides consist, outermost first. When the two sides do
/// not nest, only the outermost and the innermost common loops.
///
///     [6, 4] -> [2, 12]    2, 3 and 4
///     [6, 4] -> [4, 6]     2 and 2: 4 and 6 elements do not nest
std::vector<Loop> common_loops(const std::vector<Loop>& in, const std::vector<Loop>& out) {
  std::set<int64_t> edges;
  for (const auto* side : {&in, &out})
    for (const Loop& loop : *side) edges.insert({loop.inner, loop.inner * loop.extent});
  const int64_t all = *edges.rbegin();
  std::vector<Loop> loops;
  for (auto edge = edges.begin(); std::next(edge) != edges.end(); ++edge) {
    const int64_t outer_edge = *std::next(edge);
    if (outer_edge % *edge != 0) {
      std::vector<Loop> ends;
      if (const int64_t extent = std::gcd(in.front().extent, out.front().extent); extent > 1)
        ends.push_back({1, extent, all / extent});
      if (const int64_t extent = std::gcd(in.back().extent, out.back().extent); extent > 1)
        ends.push_back({all / extent, extent, 1});
      return ends;
    }
    loops.insert(loops.begin(), {all / outer_edge, outer_edge / *edge, *edge});
  }
  return loops;
}

/// Adds the entry of `dim`, the loop of a whole dim, for a factor that is `loop`.
void add_choice(DimFactor& dim, const Loop& of_dim, int factor, const Loop& loop) {
  const DimFactor choice{factor, loop.inner / of_dim.inner, {}, loop.outer / of_dim.outer};
  if (dim.factor < 0)
    dim = choice;
  else
    dim.others.push_back(choice);
}

/// Each common loop of a group is a factor. In a dim that contains it, it is cut in units of the
/// inner loops and in chunks of the outer loops.
///
///     [B, S] -> [B*S]    factor B: unit S of the result; factor S: in B chunks of it
///     [6, 4] -> [4, 6]   factor 2: unit 3 of x (3*4 elements), unit 2 of the result (2*6
///                        elements); factor 2: the last of 2 and of 3 chunks
ShardingRule rule_reshape(const OpView& op) {
  const Shape& in = op.inputs[0].shape;
  const Shape out = detail::result_shape(op);
  ShardingRule rule;
  rule.inputs = {OperandFactors(in.size())};
  rule.outputs = {OperandFactors(out.size())};
  rule.linear = {{0}};
  if (element_count(in) == 0) return rule;
  for (const DimGroup& group : match_dims(in, out)) {
    const std::vector<Loop> in_loops = loops_of(in, group.in_begin, group.in_end),
                            out_loops = loops_of(out, group.out_begin, group.out_end);
    const bool one_to_one = in_loops.size() == 1 && out_loops.size() == 1;
    const std::vector<Loop> loops = one_to_one ? in_loops : common_loops(in_loops, out_loops);
    for (const Loop& loop : loops) {
      const auto holds = [&](const Loop& dim) {
        return dim.inner <= loop.inner && loop.inner * loop.extent <= dim.inner * dim.extent &&
               dim.extent > 1;
      };
      const auto from =
          one_to_one ? in_loops.begin() : std::find_if(in_loops.begin(), in_loops.end(), holds);
      const auto to =
          one_to_one ? out_loops.begin() : std::find_if(out_loops.begin(), out_loops.end(), holds);
      const auto out_dim = group.out_begin + static_cast<int>(to - out_loops.begin());
      DimFactor& result = rule.outputs[0][out_dim];
      std::string name = "d" + std::to_string(out_dim);
      if (result.factor >= 0) name += "_" + std::to_string(result.others.size() + 1);
      const int factor = detail::add_factor(rule, name, loop.extent);
      add_choice(rule.inputs[0][group.in_begin + static_cast<int>(from - in_loops.begin())], *from,
                 factor, loop);
      add_choice(result, *to, factor, loop);
    }
  }
  return rule;
}

KernelCall kernel_reshape(const OpView&, std::span<const Split>) {
  return detail::kernel_call("copy");
}

void reference_reshape(const ReferenceCall& call) {
  call.outputs[0].values = call.inputs[0]->values;
}

Gradients gradient_reshape(Builder& builder, const GradientCall& call) {
  const Shape from = builder.shape(call.op.inputs[0]);
  return {builder.reshape(call.output_gradients.at(0).value(), from, "x")};
}

// transpose

std::vector<TensorType> infer_transpose(const OpView& op) {
  detail::expect_operands("transpose", op, 1);
  detail::expect_entry_per_dim("transpose", op, "permutation");
  std::vector<int64_t> sorted = op.attributes.integers("permutation");
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> every_dim(sorted.size());
  std::iota(every_dim.begin(), every_dim.end(), 0);
  if (sorted != every_dim)
    detail::refuse("transpose", op,
                   "permutation " + to_text(Attribute(op.attributes.integers("permutation"))) +
                       " is not an order of the dims of x " + to_text(op.inputs[0]),
                   "dim i of the result is dim permutation[i] of x, each of them once",
                   "list each number from 0 to " +
                       std::to_string(static_cast<int64_t>(sorted.size()) - 1) + " once");
  Shape shape;
  for (int64_t dim : op.attributes.integers("permutation"))
    shape.push_back(op.inputs[0].shape[dim]);
  return {{op.inputs[0].dtype, shape}};
}

ShardingRule rule_transpose(const OpView& op) {
  ShardingRule rule;
  rule.inputs = {detail::add_factors(rule, op.inputs[0].shape)};
  OperandFactors out;
  for (int64_t dim : op.attributes.integers("permutation"))
    out.push_back({static_cast<int>(dim), 1});
  rule.outputs = {out};
  rule.linear = {{0}};
  return rule;
}

KernelCall kernel_transpose(const OpView& op, std::span<const Split>) {
  KernelCall call = detail::kernel_call("transpose");
  for (int64_t dim : op.attributes.integers("permutation")) call.ints.emplace_back(dim);
  return call;
}

void reference_transpose(const ReferenceCall& call) {
  const std::vector<int64_t>& permutation = call.op.attributes.integers("permutation");
  const ReferenceTensor& x = *call.inputs[0];
  detail::fill_result(call, [&](const Dims& index) {
    Dims source = index;
    for (int d = 0; d < index.size(); ++d) source[permutation[d]] = index[d];
    return x.values[row_major_index(source, x.type.shape)];
  });
}

Gradients gradient_transpose(Builder& builder, const GradientCall& call) {
  const std::vector<int64_t>& permutation = call.op.attributes.integers("permutation");
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<int64_t>(i);
  return {builder.transpose(call.output_gradients.at(0).value(), inverse, "x")};
}

Operator broadcast_operator() {
  return {.name = "broadcast",
          .precision = PrecisionClass::kExact,
          .infer = infer_broadcast,
          .rule = rule_broadcast,
          .work = detail::movement_work,
          .kernel = kernel_broadcast,
          .reference = reference_broadcast,
          .tolerance = detail::exact,
          .gradient = gradient_broadcast};
}

Operator reshape_operator() {
  return {.name = "reshape",
          .precision = PrecisionClass::kExact,
          .infer = infer_reshape,
          .rule = rule_reshape,
          .work = detail::movement_work,
          .kernel = kernel_reshape,
          .reference = reference_reshape,
          .tolerance = detail::exact,
          .gradient = gradient_reshape};
}

Operator transpose_operator() {
  return {.name = "transpose",
          .precision = PrecisionClass::kExact,
          .infer = infer_transpose,
          .rule = rule_transpose,
          .work = detail::movement_work,
          .kernel = kernel_transpose,
          .reference = reference_transpose,
          .tolerance = detail::exact,
          .gradient = gradient_transpose};
}

}  // namespace

std::span<const Operator> movement_operators() {
  static const std::array operators{broadcast_operator(),   reshape_operator(),
                                    transpose_operator(),   detail::slice_operator(),
                                    detail::pad_operator(), detail::concat_operator()};
  return operators;
}

}  // namespace tessera
