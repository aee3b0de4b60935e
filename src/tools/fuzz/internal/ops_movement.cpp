// Generators of ops that move elements: broadcast, reshape, transpose, slice, pad, concat.
#include <algorithm>
#include <numeric>

#include "tools/fuzz/internal/program_maker.h"

namespace tessera::fuzz {
namespace {

DType moved_dtype(ProgramMaker& maker) {
  return maker.dice().pick(std::vector<DType>{DType::kF32, DType::kF32, DType::kF32, DType::kF32,
                                              DType::kI32, DType::kBool});
}

Known moved(ProgramMaker& maker, std::string_view kind, const Known& x, Attributes attributes) {
  return maker.make(kind, {x}, std::move(attributes), x.bounds, x.whole);
}

/// Adds dims between the old ones; an extent of 1 may grow.
bool add_broadcast(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(moved_dtype(maker), 0, 3);
  Shape shape;
  std::vector<int64_t> dims;
  int next = 0;
  while (next < maker.shape(x).size() || (shape.size() < 4 && maker.dice().chance(0.4))) {
    const bool is_new =
        next == maker.shape(x).size() || (shape.size() < 3 && maker.dice().chance(0.3));
    if (is_new) {
      shape.push_back(maker.random_extent());
      continue;
    }
    const int64_t extent = maker.shape(x)[next++];
    dims.push_back(shape.size());
    shape.push_back(extent == 1 && maker.dice().chance(0.5) ? maker.random_extent() : extent);
  }
  if (element_count(shape) > maker.max_elements()) return false;
  return maker.add(moved(maker, "broadcast", x, {{"shape", list_of(shape)}, {"dims", dims}}));
}

/// Splits dims into factors, joins them with their neighbours, or adds dims of extent 1.
Shape reshaped(ProgramMaker& maker, const Shape& from) {
  Shape parts;
  for (int64_t extent : from) {
    int64_t rest = extent;
    for (int64_t divisor = 2; divisor < rest && parts.size() < 5; ++divisor)
      if (rest % divisor == 0 && maker.dice().chance(0.4)) {
        parts.push_back(divisor);
        rest /= divisor;
      }
    if (parts.size() < 6)
      parts.push_back(rest);
    else
      parts[parts.size() - 1] *= rest;
    if (parts.size() < 5 && maker.dice().chance(0.1)) parts.push_back(1);
  }
  Shape shape;
  for (int64_t extent : parts) {
    const bool joins = !shape.empty() && (maker.dice().chance(0.35) || shape.size() == 4);
    if (joins)
      shape[shape.size() - 1] *= extent;
    else
      shape.push_back(extent);
  }
  return shape;
}

bool add_reshape(ProgramMaker& maker) {
  const Known x = maker.any(moved_dtype(maker));
  return maker.add(
      moved(maker, "reshape", x, {{"shape", list_of(reshaped(maker, maker.shape(x)))}}));
}

bool add_transpose(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(moved_dtype(maker), 1, kMaxRank);
  std::vector<int64_t> permutation(static_cast<size_t>(maker.shape(x).size()));
  std::iota(permutation.begin(), permutation.end(), 0);
  maker.dice().shuffle(permutation);
  return maker.add(moved(maker, "transpose", x, {{"permutation", permutation}}));
}

bool add_slice(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(moved_dtype(maker), 1, kMaxRank);
  std::vector<int64_t> start, limit, stride;
  for (int64_t extent : maker.shape(x)) {
    const bool whole = extent == 0 || maker.dice().chance(0.5);
    start.push_back(whole || extent == 0 ? 0 : maker.dice().below(extent));
    limit.push_back(whole ? extent
                          : maker.dice().between(start.back() + (maker.dice().chance(0.01) ? 0 : 1),
                                                 extent));  // rarely nothing
    stride.push_back(whole ? 1 : maker.dice().between(1, 3));
  }
  return maker.add(
      moved(maker, "slice", x, {{"start", start}, {"limit", limit}, {"stride", stride}}));
}

/// x, or sometimes its sum over a dim. The sum may be partial, and then the operator must not add
/// its own value once per partial value.
Known perhaps_summed(ProgramMaker& maker, const Known& x) {
  const Shape shape = maker.shape(x);
  if (maker.type(x).dtype != DType::kF32 || shape.size() < 2 || maker.dice().chance(0.6)) return x;
  const int64_t dim = maker.dice().below(shape.size());
  const auto count = static_cast<double>(shape[static_cast<int>(dim)]);
  if (x.bounds.magnitude() * count > 50) return x;
  const Bounds bounds{x.bounds.low * count, x.bounds.high * count};
  return maker.make("reduce", {x},
                    {{"op", std::string("sum")}, {"dims", std::vector<int64_t>{dim}}}, bounds,
                    x.whole && maker.exact());
}

/// Adds padding before and behind, or removes elements: a negative low drops some.
bool add_pad(ProgramMaker& maker) {
  const Known x = perhaps_summed(
      maker, maker.any_of_rank(maker.dice().chance(0.8) ? DType::kF32 : DType::kI32, 1, kMaxRank));
  std::vector<int64_t> low;
  Shape shape;
  for (int64_t extent : maker.shape(x)) {
    const bool whole = maker.dice().chance(0.5);
    low.push_back(whole ? 0 : maker.dice().between(-2, 2));
    shape.push_back(whole ? extent : std::max<int64_t>(extent + maker.dice().between(-2, 3), 1));
  }
  const auto value =
      static_cast<double>(maker.dice().chance(0.5) ? 0 : maker.dice().between(-2, 2));
  const Bounds bounds{std::min(x.bounds.low, value), std::max(x.bounds.high, value)};
  return maker.add(maker.make(
      "pad", {x}, {{"low", low}, {"shape", list_of(shape)}, {"value", value}}, bounds, x.whole));
}

bool add_concat(ProgramMaker& maker) {
  const Known first = maker.any_of_rank(moved_dtype(maker), 1, kMaxRank);
  const int64_t dim = maker.dice().below(maker.shape(first).size());
  std::vector<Known> parts{first};
  Bounds bounds = first.bounds;
  bool whole = first.whole;
  for (int64_t more = maker.dice().between(0, 2); more > 0; --more) {
    TensorType type = maker.type(first);
    type.shape[static_cast<int>(dim)] = maker.random_extent();
    const Known part = maker.dice().chance(0.2) ? first : maker.of_type(type);
    parts.push_back(part);
    bounds = {std::min(bounds.low, part.bounds.low), std::max(bounds.high, part.bounds.high)};
    whole = whole && part.whole;
  }
  maker.dice().shuffle(parts);
  return maker.add(maker.make("concat", parts, {{"dim", dim}}, bounds, whole));
}

constexpr OpGenerator kMovementOps[] = {
    {"broadcast", 7, add_broadcast}, {"reshape", 7, add_reshape}, {"transpose", 5, add_transpose},
    {"slice", 5, add_slice},         {"pad", 4, add_pad},         {"concat", 5, add_concat}};

}  // namespace

std::span<const OpGenerator> movement_ops() {
  return kMovementOps;
}

}  // namespace tessera::fuzz
