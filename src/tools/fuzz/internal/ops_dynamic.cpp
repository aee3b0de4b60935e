// Generators of ops whose indices are operands, and of ops along one dim: dynamic_slice,
// dynamic_update, take_along_dim, gather_nd and similar ones, orders, scans, grouped products.
#include <algorithm>

#include "tools/fuzz/internal/program_maker.h"

namespace tessera::fuzz {
namespace {

DType random_dtype(ProgramMaker& maker) {
  return maker.dice().pick(
      std::vector<DType>{DType::kF32, DType::kF32, DType::kF32, DType::kI32, DType::kBool});
}

/// A start from before the tensor to after it, mostly inside.
Known random_start(ProgramMaker& maker, int64_t extent) {
  if (maker.dice().chance(0.4)) return maker.of_type({DType::kI32, {}});
  return maker.new_input({DType::kI32, {}}, {true, -1, static_cast<double>(extent)});
}

/// The dims in which a window moves, its start, and its size.
struct Window {
  std::vector<int64_t> dims;
  std::vector<Known> starts;
  std::vector<int64_t> sizes;
};

Window random_window(ProgramMaker& maker, const Shape& shape) {
  Window window;
  const int64_t always = maker.dice().below(shape.size());
  for (int d = 0; d < shape.size(); ++d) {
    if (d != always && maker.dice().chance(0.7)) continue;
    window.dims.push_back(d);
    window.starts.push_back(random_start(maker, shape[d]));
    window.sizes.push_back(maker.dice().between(std::min<int64_t>(shape[d], 1), shape[d]));
  }
  return window;
}

bool add_dynamic_slice(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(random_dtype(maker), 1, 4);
  const Window window = random_window(maker, maker.shape(x));
  std::vector<Known> operands{x};
  operands.insert(operands.end(), window.starts.begin(), window.starts.end());
  const Bounds bounds{std::min(x.bounds.low, 0.0), std::max(x.bounds.high, 0.0)};
  return maker.add(maker.make("dynamic_slice", operands,
                              {{"dims", window.dims}, {"sizes", window.sizes}}, bounds, x.whole));
}

bool add_dynamic_update(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(random_dtype(maker), 1, 4);
  TensorType type = maker.type(x);
  const Window window = random_window(maker, type.shape);
  for (size_t k = 0; k < window.dims.size(); ++k)
    type.shape[static_cast<int>(window.dims[k])] = window.sizes[k];
  const Known update = maker.of_type(type);
  std::vector<Known> operands{x, update};
  operands.insert(operands.end(), window.starts.begin(), window.starts.end());
  const Bounds bounds{std::min(x.bounds.low, update.bounds.low),
                      std::max(x.bounds.high, update.bounds.high)};
  return maker.add(maker.make("dynamic_update", operands, {{"dims", window.dims}}, bounds,
                              x.whole && update.whole));
}

/// Element numbers, from one before the first to one after the last.
Bounds with_zero(const Bounds& bounds) {
  return {std::min(bounds.low, 0.0), std::max(bounds.high, 0.0)};
}

bool add_take_along_dim(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(random_dtype(maker), 1, 4);
  Shape shape = maker.shape(x);
  const int64_t dim = maker.dice().below(shape.size());
  const int64_t extent = shape[static_cast<int>(dim)];
  shape[static_cast<int>(dim)] = maker.random_extent();
  if (element_count(shape) > maker.max_elements()) return false;
  const Known ids = random_ids(maker, extent, shape);
  return maker.add(
      maker.make("take_along_dim", {x, ids}, {{"dim", dim}}, with_zero(x.bounds), x.whole));
}

bool add_scatter_add_along_dim(ProgramMaker& maker) {
  const Known updates = maker.any_of_rank(DType::kF32, 1, 4);
  const Shape shape = maker.shape(updates);
  const int64_t dim = maker.dice().below(shape.size()), extent = maker.dice().between(1, 7);
  const Known ids = random_ids(maker, extent, shape);
  const double largest =
      updates.bounds.magnitude() * static_cast<double>(shape[static_cast<int>(dim)]);
  return maker.add(maker.make("scatter_add_along_dim", {ids, updates},
                              {{"dim", dim}, {"extent", extent}}, {-largest, largest},
                              maker.exact()));
}

/// A table, the number of its dims that indices select, and the shapes of the corresponding ids and
/// updates.
struct Rows {
  int depth = 1;
  Shape ids, updates;
};

Rows random_rows(ProgramMaker& maker, const Shape& table) {
  Rows rows;
  rows.depth = static_cast<int>(maker.dice().between(1, std::min(table.size(), 3)));
  rows.ids = rows.updates = maker.random_shape(0, 2);
  rows.ids.push_back(rows.depth);
  for (int d = rows.depth; d < table.size(); ++d) rows.updates.push_back(table[d]);
  return rows;
}

int64_t largest_extent(const Shape& shape) {
  return shape.empty() ? 1 : *std::max_element(shape.begin(), shape.end());
}

bool add_gather_nd(ProgramMaker& maker) {
  const Known table = maker.any_of_rank(random_dtype(maker), 1, 3);
  const Rows rows = random_rows(maker, maker.shape(table));
  if (element_count(rows.updates) > maker.max_elements()) return false;
  const Known ids = random_ids(maker, largest_extent(maker.shape(table)), rows.ids);
  return maker.add(maker.make("gather_nd", {table, ids}, {}, with_zero(table.bounds), table.whole));
}

bool add_scatter_nd(ProgramMaker& maker) {
  const Known table = maker.any_of_rank(random_dtype(maker), 1, 3);
  const TensorType type = maker.type(table);
  const Rows rows = random_rows(maker, type.shape);
  if (element_count(rows.updates) > maker.max_elements()) return false;
  const Known ids = random_ids(maker, largest_extent(type.shape), rows.ids);
  const Known updates = maker.of_type({type.dtype, rows.updates});
  const Bounds bounds{std::min(table.bounds.low, updates.bounds.low),
                      std::max(table.bounds.high, updates.bounds.high)};
  return maker.add(
      maker.make("scatter_nd", {table, ids, updates}, {}, bounds, table.whole && updates.whole));
}

bool add_scatter_add_nd(ProgramMaker& maker) {
  const Shape table = maker.random_shape(1, 3);
  const Rows rows = random_rows(maker, table);
  if (element_count(rows.updates) > maker.max_elements()) return false;
  const Known updates = maker.of_type({DType::kF32, rows.updates});
  const Known ids = random_ids(maker, largest_extent(table), rows.ids);
  const std::vector<int64_t> extents(table.begin(), table.begin() + rows.depth);
  const double largest = updates.bounds.magnitude() * static_cast<double>(element_count(rows.ids));
  return maker.add(maker.make("scatter_add_nd", {ids, updates}, {{"rows", extents}},
                              {-largest, largest}, maker.exact()));
}

/// The operand of an order: whole numbers, which rounding cannot exchange, and through which no
/// gradient flows.
Known ordered_operand(ProgramMaker& maker) {
  return maker.dice().chance(0.3) ? maker.any(DType::kI32) : any_whole(maker);
}

bool add_arg(ProgramMaker& maker) {
  const Known x = ordered_operand(maker);
  const Shape shape = maker.shape(x);
  if (element_count(shape) == 0 || shape.empty()) return false;
  const int64_t dim = maker.dice().below(shape.size());
  const auto kind = maker.dice().pick(std::vector<std::string_view>{"argmax", "argmin"});
  return maker.add(maker.make(kind, {x}, {{"dim", dim}},
                              {0, static_cast<double>(shape[static_cast<int>(dim)])}, true, false));
}

/// The indices of an order are discontinuous. Its values are not, but their gradient goes to the
/// positions of the indices.
bool add_order(ProgramMaker& maker) {
  const Known x = ordered_operand(maker);
  const Shape shape = maker.shape(x);
  if (shape.empty()) return false;
  const int64_t dim = maker.dice().below(shape.size()), extent = shape[static_cast<int>(dim)];
  const Attribute at = dim;
  const std::vector<ValueId> results =
      maker.dice().chance(0.5)
          ? maker.builder().op("sort", {x.id},
                               {{"dim", at}, {"descending", maker.dice().chance(0.5)}})
          : maker.builder().op(
                "top_k", {x.id},
                {{"dim", at}, {"k", maker.dice().between(std::min<int64_t>(extent, 1), extent)}});
  maker.add({results[1], {0, static_cast<double>(extent)}, true, false});
  return maker.add({results[0], x.bounds, x.whole, false});
}

/// Keys that rounding cannot exchange: whole numbers that differ along the dim, plus at most a
/// quarter. A gradient flows through them.
bool add_trained_order(ProgramMaker& maker) {
  if (maker.exact()) return false;
  const Known x = maker.any_of_rank(DType::kF32, 1, 3);
  const TensorType type = maker.type(x);
  const int64_t dim = maker.dice().below(type.shape.size()),
                extent = type.shape[static_cast<int>(dim)];
  const double scale = 0.25 / std::max(x.bounds.magnitude(), 1.0);
  const ValueId small = maker.builder().mul_scalar(x.id, maker.dice().chance(0.5) ? scale : -scale);
  const ValueId numbers = maker.builder().iota(type, static_cast<int>(dim));
  const ValueId keys = maker.builder().add(small, numbers);
  const int64_t k = maker.dice().between(std::min<int64_t>(extent, 1), extent);
  const std::vector<ValueId> results =
      maker.builder().op("top_k", {keys}, {{"dim", dim}, {"k", k}});
  maker.add({results[1], {0, static_cast<double>(extent)}, true, false});
  return maker.add({results[0], {-1, static_cast<double>(extent)}, false, x.trained});
}

bool add_cumsum(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(maker.dice().chance(0.8) ? DType::kF32 : DType::kI32, 1, 4);
  const int64_t dim = maker.dice().below(maker.shape(x).size());
  const double largest =
      x.bounds.magnitude() * static_cast<double>(maker.shape(x)[static_cast<int>(dim)]);
  const bool whole = x.whole && (maker.exact() || maker.type(x).dtype == DType::kI32);
  const bool exclusive = maker.dice().chance(0.4), reverse = maker.dice().chance(0.4);
  return maker.add(maker.make("cumsum", {x},
                              {{"dim", dim}, {"exclusive", exclusive}, {"reverse", reverse}},
                              {-largest, largest}, whole));
}

bool add_reverse(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(random_dtype(maker), 1, 4);
  return maker.add(maker.make("reverse", {x}, {{"dim", maker.dice().below(maker.shape(x).size())}},
                              x.bounds, x.whole));
}

/// Sizes of groups: some are empty, and their sum may be less or more than the number of rows.
Known random_sizes(ProgramMaker& maker, int64_t groups) {
  if (maker.dice().chance(0.3)) return maker.of_type({DType::kI32, {groups}});
  return maker.new_input({DType::kI32, {groups}}, {true, -1, 3});
}

bool add_grouped(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(DType::kF32, 2, 2);
  const Shape shape = maker.shape(x);
  const int64_t groups = maker.dice().between(1, 4), columns = maker.dice().between(1, 5);
  const Known sizes = random_sizes(maker, groups);
  if (maker.dice().chance(0.4)) {
    if (groups * shape[1] * columns > maker.max_elements()) return false;
    const Known y = maker.of_type({DType::kF32, {shape[0], columns}});
    const double largest =
        x.bounds.magnitude() * y.bounds.magnitude() * static_cast<double>(shape[0]);
    return maker.add(
        maker.make("grouped_outer", {x, y, sizes}, {}, {-largest, largest}, maker.exact()));
  }
  const bool transposed = maker.dice().chance(0.5);
  const Known w = maker.of_type({DType::kF32, transposed ? Shape{groups, columns, shape[1]}
                                                         : Shape{groups, shape[1], columns}});
  const double largest =
      x.bounds.magnitude() * w.bounds.magnitude() * static_cast<double>(shape[1]);
  return maker.add(maker.make("grouped_matmul", {x, w, sizes}, {{"transposed", transposed}},
                              {-largest, largest}, maker.exact()));
}

constexpr OpGenerator kDynamicOps[] = {{"dynamic_slice", 2, add_dynamic_slice},
                                       {"dynamic_update", 2, add_dynamic_update},
                                       {"take_along_dim", 2, add_take_along_dim},
                                       {"scatter_add_along_dim", 2, add_scatter_add_along_dim},
                                       {"gather_nd", 2, add_gather_nd},
                                       {"scatter_nd", 2, add_scatter_nd},
                                       {"scatter_add_nd", 2, add_scatter_add_nd},
                                       {"arg", 2, add_arg},
                                       {"order", 2, add_order},
                                       {"trained_order", 1, add_trained_order},
                                       {"cumsum", 2, add_cumsum},
                                       {"reverse", 1, add_reverse},
                                       {"grouped", 3, add_grouped}};

}  // namespace

std::span<const OpGenerator> dynamic_ops() {
  return kDynamicOps;
}

}  // namespace tessera::fuzz
