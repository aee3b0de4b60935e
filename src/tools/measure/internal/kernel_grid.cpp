#include "tools/measure/internal/kernel_grid.h"

#include <array>
#include <initializer_list>
#include <string>
#include <utility>

namespace tessera {
namespace {

TensorType f32(const Shape& shape) {
  return {DType::kF32, shape};
}
TensorType i32(const Shape& shape) {
  return {DType::kI32, shape};
}

class Grid {
 public:
  void arithmetic(LocalCall call) { points_.push_back({std::move(call), true}); }
  void memory(LocalCall call) { points_.push_back({std::move(call), false}); }
  std::vector<GridPoint> points() && { return std::move(points_); }

 private:
  std::vector<GridPoint> points_;
};

void add_products(Grid& grid) {
  for (int64_t n : {4, 16, 32, 64, 128, 256, 512, 1024})
    grid.arithmetic(
        {"dot_general", {}, {}, "mk,kn->mn", {f32({n, n}), f32({n, n})}, {f32({n, n})}});
  for (int64_t n : {16, 64, 256}) {
    const TensorType rows = f32({2 * n, n}), square = f32({n, n});
    grid.arithmetic({"dot_general", {}, {}, "mk,nk->mn", {rows, square}, {rows}});
    grid.arithmetic({"dot_general", {}, {}, "km,kn->mn", {rows, rows}, {square}});
  }
  for (int64_t n : {2, 8, 32}) {
    const TensorType batch = f32({64, n, n});
    grid.arithmetic({"dot_general", {}, {}, "bmk,bkn->bmn", {batch, batch}, {batch}});
  }
}

/// Square images and windows.
struct Images {
  int64_t batch = 1, in = 1, out = 1, extent = 1, window = 3, stride = 1, groups = 1;
};

void add_convolution(Grid& grid, const Images& images) {
  const auto& [batch, in, out, extent, window, stride, groups] = images;
  const int64_t low = window / 2, positions = (extent + 2 * low - window) / stride + 1;
  std::vector<int64_t> ints;
  for (int dim = 0; dim < 2; ++dim) ints.insert(ints.end(), {window, stride, 1, low, extent, 0, 0});
  const TensorType x = f32({batch, in, extent, extent}),
                   y = f32({batch, out, positions, positions});
  const TensorType weight = f32({out, in / groups, window, window});
  grid.arithmetic({"convolution", ints, {}, "", {x, weight}, {y}});
  grid.arithmetic({"convolution_grad_input", ints, {}, "", {y, weight}, {x}});
  grid.arithmetic({"convolution_grad_weight", ints, {}, "", {x, y}, {weight}});
}

/// Rows from one pixel on, each with few and with many bytes of weights and of images for an
/// operation, which tell copies from arithmetic.
void add_convolutions(Grid& grid) {
  const auto add = [&](std::initializer_list<Images> list) {
    for (const Images& images : list) add_convolution(grid, images);
  };
  const auto add_square = [&](int64_t batch, int64_t channels,
                              std::initializer_list<int64_t> extents, int64_t stride = 1) {
    for (int64_t extent : extents)
      add({{.batch = batch, .in = channels, .out = channels, .extent = extent, .stride = stride}});
  };
  // Channels that fill vectors.
  add_square(1, 16, {1, 32});
  add_square(2, 128, {1, 2, 3, 4, 6});
  add_square(8, 32, {2, 3, 4, 5, 7, 10});
  add_square(32, 48, {1, 2, 3, 5});
  add_square(4, 16, {8, 12, 16});
  add_square(4, 64, {4, 8, 16});
  add_square(1, 16, {2}, 2);
  add_square(8, 48, {4, 8, 16}, 2);
  add_square(8, 96, {2, 3, 5}, 2);
  add_square(2, 128, {3, 10}, 2);
  // Those that do not.
  add({{.batch = 1, .in = 16, .out = 8, .extent = 1}});
  add_square(1, 20, {1, 32});
  add_square(2, 72, {1, 2, 4});
  add_square(8, 40, {2, 3, 5, 10});
  add_square(32, 28, {1, 3, 5});
  add_square(4, 56, {4, 16});
  add_square(8, 24, {4, 8, 16}, 2);
  // Images whose channels are colors.
  for (int64_t in : {1, 3, 8})
    add({{.batch = 1, .in = in, .out = 16, .extent = 4},
         {.batch = 16, .in = in, .out = 32, .extent = 2},
         {.batch = 8, .in = in, .out = 16, .extent = 8},
         {.batch = 4, .in = in, .out = 48, .extent = 16},
         {.batch = 2, .in = in, .out = 32, .extent = 32}});
  // Windows of one element.
  for (const auto& [batch, channels, extent] :
       std::initializer_list<std::array<int64_t, 3>>{{1, 16, 1},
                                                     {1, 20, 1},
                                                     {2, 128, 1},
                                                     {32, 48, 1},
                                                     {32, 16, 3},
                                                     {4, 128, 3},
                                                     {16, 40, 4},
                                                     {4, 80, 8},
                                                     {8, 32, 8},
                                                     {8, 16, 16},
                                                     {2, 64, 16},
                                                     {1, 20, 32}})
    add({{.batch = batch, .in = channels, .out = channels, .extent = extent, .window = 1}});
  // A group for each channel.
  for (const auto& [batch, channels, extent] : std::initializer_list<std::array<int64_t, 3>>{
           {1, 16, 1}, {8, 32, 2}, {8, 16, 4}, {4, 40, 8}, {4, 64, 16}, {1, 128, 32}})
    add({{.batch = batch, .in = channels, .out = channels, .extent = extent, .groups = channels}});
}

void add_attention(Grid& grid) {
  const auto add = [&](int64_t batch, int64_t n, int64_t heads, int64_t depth, bool is_causal) {
    const std::vector<int64_t> ints{is_causal ? 1 : 0, 0};
    const TensorType qkv = f32({batch, n, heads, depth}), lse = f32({batch, heads, n});
    grid.arithmetic({"attention", ints, {0.2}, "", {qkv, qkv, qkv}, {qkv, lse}});
    grid.arithmetic(
        {"attention_grad", ints, {0.2}, "", {qkv, qkv, qkv, qkv, lse, qkv}, {qkv, qkv, qkv}});
  };
  for (bool is_causal : {false, true}) {
    for (int64_t n : {1, 16}) add(1, n, 1, 4, is_causal);
    for (int64_t n : {8, 20, 40, 80, 160}) add(2, n, 3, 10, is_causal);
    for (int64_t n : {12, 24, 32, 96}) add(2, n, 3, 8, is_causal);
    for (int64_t n : {32, 128}) add(2, n, 3, 4, is_causal);
    for (int64_t n : {24, 48, 96}) add(2, n, 2, 16, is_causal);
    for (int64_t n : {20, 80, 320}) add(1, n, 3, 40, is_causal);
    for (int64_t n : {48, 192}) add(1, n, 2, 64, is_causal);
    for (int64_t n : {40, 160}) add(1, n, 2, 80, is_causal);
  }
}

/// Small, in the caches of the first, the second and the third level, and beyond. The counts are
/// close to each other where a cache of one or two MiB ends: there the rate falls to a third.
constexpr int64_t kCounts[] = {64, 1024, 1 << 14, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20};
constexpr int64_t kLargest = 1 << 22;

void add_elementwise(Grid& grid) {
  const auto add = [&](int64_t count, bool all) {
    const TensorType x = f32({count}), p{DType::kBool, {count}};
    for (const char* name : {"binary.add", "binary.mul"})
      grid.memory({name, {}, {}, "", {x, x}, {x}});
    grid.memory({"scalar.mul", {}, {0.5}, "", {x}, {x}});
    if (!all) return;
    for (const char* name : {"binary.sub", "binary.max", "binary.min", "binary.div"})
      grid.memory({name, {}, {}, "", {x, x}, {x}});
    for (const char* name : {"scalar.add", "scalar.max", "scalar.min"})
      grid.memory({name, {}, {0.5}, "", {x}, {x}});
    for (const char* name : {"unary.neg", "unary.abs", "unary.square", "unary.sign", "unary.sqrt",
                             "unary.rsqrt", "unary.floor", "unary.ceil", "unary.round"})
      grid.memory({name, {}, {}, "", {x}, {x}});
    for (const char* name : {"compare.eq", "compare.lt", "compare.ge", "compare.gt"})
      grid.memory({name, {}, {}, "", {x, x}, {p}});
    grid.memory({"select", {}, {}, "", {p, x, x}, {x}});
    grid.memory({"cast", {}, {}, "", {i32({count})}, {x}});
    grid.memory({"constant", {}, {0.5}, "", {}, {x}});
    grid.memory({"iota", {0, 0}, {}, "", {}, {x}});
    for (const char* name : {"unary.exp", "unary.log", "unary.tanh", "unary.logistic", "unary.erf",
                             "unary.sin", "unary.cos", "unary.log1p", "unary.expm1"})
      grid.arithmetic({name, {}, {}, "", {x}, {x}});
    grid.arithmetic({"binary.pow", {}, {}, "", {x, x}, {x}});
    grid.arithmetic({"random_uniform", {7, 0, count}, {}, "", {i32({})}, {x}});
  };
  for (int64_t count : kCounts) add(count, true);
  add(kLargest, false);
}

void add_reductions(Grid& grid) {
  const auto add = [&](const Shape& shape, int64_t dim, const Shape& result) {
    const TensorType x = f32(shape), y = f32(result);
    for (const char* name : {"reduce.sum", "reduce.max"})
      grid.memory({name, {dim}, {}, "", {x}, {y}});
  };
  for (int64_t columns : {4, 20, 64, 512})
    for (int64_t count : kCounts) {
      const int64_t rows = count / columns;
      if (rows < 1) continue;
      add({rows, columns}, 1, {rows});
      if (columns >= 64) add({rows, columns}, 0, {columns});
      if (rows >= 8 && columns < 64) add({rows / 4, 4, columns}, 1, {rows / 4, columns});
    }
  grid.memory({"reduce.sum", {0, 2}, {}, "", {f32({2, 1, 4})}, {f32({1})}});
  for (int64_t planes : {24, 60})
    for (int64_t run : {8, 40, 160, 640}) {
      const TensorType x = f32({planes, 20, run});
      grid.memory({"reduce.sum", {0, 2}, {}, "", {x}, {f32({20})}});
    }
  for (int64_t rows : {1, 16, 256, 4096}) {
    const TensorType x = f32({rows, 64}), index = i32({rows});
    grid.memory({"argmax", {1}, {}, "", {x}, {index}});
    grid.memory({"cumsum", {1, 0, 0}, {}, "", {x}, {x}});
    grid.arithmetic({"sort", {1, 0}, {}, "", {x}, {x, i32({rows, 64})}});
  }
}

void add_windows(Grid& grid) {
  for (int64_t extent : {2, 8, 16, 32}) {
    std::vector<int64_t> window;
    for (int dim = 0; dim < 2; ++dim) window.insert(window.end(), {2, 2, 1, 0, extent, 0, 0});
    std::vector<int64_t> with_begins = window, counted = window;
    with_begins.insert(with_begins.end(), {0, 0});
    counted.push_back(1);
    const TensorType x = f32({4, 10, extent, extent}), y = f32({4, 10, extent / 2, extent / 2});
    grid.memory({"max_pool", window, {}, "", {x}, {y}});
    grid.memory({"max_pool_grad", with_begins, {}, "", {x, y}, {x}});
    grid.memory({"average_pool", counted, {}, "", {x}, {y}});
    grid.memory({"average_pool_grad", counted, {}, "", {y}, {x}});
    const std::vector<int64_t> sizes{extent / 2, extent, 0, 0, extent / 2, extent, 0, 0};
    for (const char* mode : {"nearest half_pixel", "linear half_pixel"}) {
      grid.memory({"resize", sizes, {}, mode, {y}, {x}});
      grid.memory({"resize_grad", sizes, {}, mode, {x}, {y}});
    }
  }
}

void add_movements_of_rows(Grid& grid, int64_t rows, int64_t columns) {
  const TensorType whole = f32({rows, columns}), half = f32({rows, columns / 2});
  const TensorType column = f32({rows}), row = f32({columns});
  grid.memory({"broadcast", {0}, {}, "", {column}, {whole}});
  grid.memory({"broadcast", {1}, {}, "", {row}, {whole}});
  grid.memory({"broadcast", {}, {}, "", {f32({})}, {whole}});
  grid.memory({"transpose", {1, 0}, {}, "", {whole}, {f32({columns, rows})}});
  grid.memory({"slice", {0, 0, 1, 1}, {}, "", {whole}, {half}});
  grid.memory({"pad", {0, 0}, {0.0}, "", {half}, {whole}});
  grid.memory({"concat", {1}, {}, "", {half, half}, {whole}});
  grid.memory({"take_chunk", {1, 1, 0}, {}, "", {whole}, {half}});
  grid.memory({"join_chunks", {1, 1}, {}, "", {half, half}, {whole}});
  grid.memory({"copy", {}, {}, "", {whole}, {f32({rows * columns})}});
  if (rows >= 4) {
    grid.memory({"transpose",
                 {1, 0, 2},
                 {},
                 "",
                 {f32({rows / 4, 4, columns})},
                 {f32({4, rows / 4, columns})}});
  }
}

void add_movements(Grid& grid) {
  for (int64_t columns : {6, 20, 64, 512})
    for (int64_t count : kCounts)
      if (const int64_t rows = count / columns; rows >= 1)
        add_movements_of_rows(grid, rows, columns);
}

void add_gathers(Grid& grid) {
  for (int64_t columns : {8, 64})
    for (int64_t rows : {1, 16, 256, 4096, 16384}) {
      const TensorType indices = i32({rows}), table = f32({256, columns}),
                       matrix = f32({rows, columns});
      grid.memory({"gather", {0}, {}, "", {table, indices}, {matrix}});
      grid.memory({"scatter_add", {0}, {}, "", {indices, matrix}, {table}});
    }
  for (int64_t rows : {1, 16, 256, 1024}) {
    const TensorType lanes = f32({rows, 256}), one = f32({rows, 1}), ids = i32({rows, 1});
    grid.memory({"take_along_dim", {1, 0}, {}, "", {lanes, ids}, {one}});
    grid.memory({"scatter_add_along_dim", {1, 0}, {}, "", {ids, one}, {lanes}});
  }
}

}  // namespace

std::vector<GridPoint> kernel_grid() {
  Grid grid;
  add_products(grid);
  add_convolutions(grid);
  add_attention(grid);
  add_elementwise(grid);
  add_reductions(grid);
  add_windows(grid);
  add_movements(grid);
  add_gathers(grid);
  return std::move(grid).points();
}

}  // namespace tessera
