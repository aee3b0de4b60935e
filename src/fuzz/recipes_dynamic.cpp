// Recipes of ops whose places are operands: dynamic_slice, dynamic_update.
#include <algorithm>

#include "fuzz/program_maker.h"

namespace tessera::fuzz {
namespace {

DType random_dtype(ProgramMaker& maker) {
  return maker.dice().pick(std::vector<DType>{DType::kF32, DType::kF32, DType::kF32, DType::kI32, DType::kBool});
}

/// From before the tensor to behind it, mostly inside.
Known random_start(ProgramMaker& maker, int64_t extent) {
  if (maker.dice().chance(0.4)) return maker.of_type({DType::kI32, {}});
  return maker.new_input({DType::kI32, {}}, {true, -1, static_cast<double>(extent)});
}

/// Dims in which a window moves, where it begins, and how large it is.
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

bool cook_dynamic_slice(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(random_dtype(maker), 1, 4);
  const Window window = random_window(maker, maker.shape(x));
  std::vector<Known> operands{x};
  operands.insert(operands.end(), window.starts.begin(), window.starts.end());
  const Bounds bounds{std::min(x.bounds.low, 0.0), std::max(x.bounds.high, 0.0)};
  return maker.add(maker.make("dynamic_slice", operands, {{"dims", window.dims}, {"sizes", window.sizes}}, bounds, x.whole));
}

bool cook_dynamic_update(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(random_dtype(maker), 1, 4);
  TensorType type = maker.type(x);
  const Window window = random_window(maker, type.shape);
  for (size_t k = 0; k < window.dims.size(); ++k) type.shape[static_cast<int>(window.dims[k])] = window.sizes[k];
  const Known update = maker.of_type(type);
  std::vector<Known> operands{x, update};
  operands.insert(operands.end(), window.starts.begin(), window.starts.end());
  const Bounds bounds{std::min(x.bounds.low, update.bounds.low), std::max(x.bounds.high, update.bounds.high)};
  return maker.add(maker.make("dynamic_update", operands, {{"dims", window.dims}}, bounds, x.whole && update.whole));
}

constexpr Recipe kRecipes[] = {{"dynamic_slice", 2, cook_dynamic_slice}, {"dynamic_update", 2, cook_dynamic_update}};

}  // namespace

std::span<const Recipe> dynamic_recipes() {
  return kRecipes;
}

}  // namespace tessera::fuzz
