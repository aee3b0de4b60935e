#include "ir/ops/internal/reference_product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"

namespace tessera {
namespace {

/// An einsum and the extents of its letters.
struct ReferenceProductCase {
  std::string spec;
  std::map<char, int64_t> extents;
};

Shape shape_of(const std::string& letters, const ReferenceProductCase& of) {
  Shape shape;
  for (char letter : letters) shape.push_back(of.extents.at(letter));
  return shape;
}

/// Small integers, so that sums are exact in any order.
std::vector<double> integers(const Shape& shape, uint64_t key) {
  std::vector<float> uniform(static_cast<size_t>(element_count(shape)));
  RandomStream(key, 0).uniform_run(0, std::ssize(uniform), uniform.data());
  std::vector<double> values;
  for (float each : uniform) values.push_back(static_cast<int>(each * 17) - 8);
  return values;
}

/// How far apart the neighbours along each letter of `of` are in a tensor.
Dims steps(const std::string& letters, const ReferenceProductCase& of) {
  const Dims strides = row_major_strides(shape_of(letters, of));
  Dims steps;
  for (const auto& [letter, extent] : of.extents)
    steps.push_back(has_letter(letters, letter) ? strides[dim_of_letter(letters, letter)] : 0);
  return steps;
}

int64_t offset(const Dims& at, const Dims& steps) {
  int64_t sum = 0;
  for (int d = 0; d < at.size(); ++d) sum += at[d] * steps[d];
  return sum;
}

/// The definition: a product for each point of the loops over all letters.
std::vector<double> plain_product(const ReferenceProductCase& of, const Einsum& einsum,
                                  const std::vector<double>& a, const std::vector<double>& b) {
  const Dims a_steps = steps(einsum.a(), of), b_steps = steps(einsum.b(), of),
             out_steps = steps(einsum.result, of);
  std::vector<double> out(static_cast<size_t>(element_count(shape_of(einsum.result, of))), 1.0);
  Shape extents;
  for (const auto& [letter, extent] : of.extents) extents.push_back(extent);
  Dims at = Dims::filled(extents.size(), 0);
  for (int64_t i = 0; i < element_count(extents); ++i, advance_index(at, extents))
    out[offset(at, out_steps)] += a[offset(at, a_steps)] * b[offset(at, b_steps)];
  return out;
}

void expect_plain(const ReferenceProductCase& of) {
  SCOPED_TRACE(of.spec);
  const Einsum einsum = parse_einsum(of.spec).value();
  const Shape a_shape = shape_of(einsum.a(), of), b_shape = shape_of(einsum.b(), of);
  const std::vector<double> a = integers(a_shape, 1), b = integers(b_shape, 2);
  std::vector<double> out(static_cast<size_t>(element_count(shape_of(einsum.result, of))), 1.0);
  add_product(einsum, a_shape, a, b_shape, b, out);
  EXPECT_EQ(out, plain_product(of, einsum, a, b));
}

TEST(ReferenceProduct, EqualsTheLoopsOverAllLetters) {
  expect_plain({"mk,kn->mn", {{'m', 5}, {'k', 7}, {'n', 3}}});
  expect_plain({"km,nk->nm", {{'m', 33}, {'k', 2}, {'n', 18}}});
  expect_plain({"bhqd,bhkd->bhqk", {{'b', 2}, {'h', 3}, {'q', 5}, {'d', 4}, {'k', 6}}});
  expect_plain({"abc,dec->abde", {{'a', 4}, {'b', 3}, {'c', 5}, {'d', 2}, {'e', 7}}});
  expect_plain({"k,k->", {{'k', 1000}}});
  expect_plain({"m,n->nm", {{'m', 9}, {'n', 20}}});
  expect_plain({"b,b->b", {{'b', 40}}});
}

TEST(ReferenceProduct, EqualsThemBesideTheEdgesOfItsBlocks) {
  for (int64_t rows : {1, 4, 255, 257})
    for (int64_t inner : {1, 256, 259})
      for (int64_t columns : {1, 16, 17})
        expect_plain({"mk,kn->mn", {{'m', rows}, {'k', inner}, {'n', columns}}});
}

TEST(ReferenceProduct, EqualsThemOnSeveralThreads) {
  expect_plain({"bmk,bkn->bnm", {{'b', 3}, {'m', 300}, {'k', 100}, {'n', 100}}});
}

TEST(ReferenceProduct, OfEmptyTensorsAddsNothing) {
  expect_plain({"mk,kn->mn", {{'m', 3}, {'k', 0}, {'n', 4}}});
  expect_plain({"mk,kn->mn", {{'m', 0}, {'k', 3}, {'n', 4}}});
}

TEST(ReferenceProduct, KeepsWhatIsNotANumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> out(2);
  add_product({{"mk", "kn"}, "mn"}, {2, 2}, std::vector{1.0, 2.0, 0.0, nan}, {2, 1},
              std::vector{3.0, 4.0}, out);
  EXPECT_EQ(out[0], 11);
  EXPECT_THAT(out[1], testing::NanSensitiveDoubleEq(nan));
}

}  // namespace
}  // namespace tessera
