#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/bind.h"
#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

struct Einsum {
  std::string a, b, out;
  std::string text() const { return a + "," + b + "->" + out; }
};

Einsum einsum_of(const std::string& text) {
  const size_t comma = text.find(','), arrow = text.find("->");
  return {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
}

using Extents = std::map<char, int64_t>;

TensorType type_of(const std::string& letters, const Extents& extents) {
  TensorType type{DType::kF32, {}};
  for (char letter : letters) type.shape.push_back(extents.at(letter));
  return type;
}

LocalCall dot_call(const Einsum& einsum, const Extents& extents) {
  return {"dot_general",
          {},
          {},
          einsum.text(),
          {type_of(einsum.a, extents), type_of(einsum.b, extents)},
          {type_of(einsum.out, extents)}};
}

int64_t contracted_terms(const Einsum& einsum, const Extents& extents) {
  int64_t terms = 1;
  for (char letter : einsum.a)
    if (einsum.out.find(letter) == std::string::npos) terms *= extents.at(letter);
  return terms;
}

// Each product and each addition rounds once: |error| <= (terms + 1) u sum |a b|.
void check(Generator& generator, const Einsum& einsum, const Extents& extents) {
  const LocalCall call = dot_call(einsum, extents);
  Tensors inputs, sizes;
  for (const TensorType& type : call.inputs)
    sizes.push_back(absolute(inputs.emplace_back(random_tensor(generator, type))));
  const Tensors expected = run_plain(call, inputs), sums = run_plain(call, sizes);
  const double roundings = static_cast<double>(contracted_terms(einsum, extents)) + 1.0;
  const auto tolerance = [&](size_t i) {
    return roundings * kRoundoff * sums[0].values<float>()[i];
  };
  expect_near(run_fast(call, inputs)[0], expected[0], tolerance,
              einsum.text() + " " + to_text(call.inputs[0]) + " " + to_text(call.inputs[1]));
}

Extents random_extents(Generator& generator, const Einsum& einsum,
                       std::span<const int64_t> choices) {
  Extents extents;
  for (char letter : einsum.a + einsum.b)
    extents[letter] = choices[random_int(generator, 0, static_cast<int64_t>(choices.size()) - 1)];
  return extents;
}

TEST(DotKernels, TheProductsOfModelsEqualTheReference) {
  Generator generator(1);
  constexpr int64_t kExtents[] = {1, 2, 3, 5, 7, 8};
  for (const char* text : {"mk,kn->mn",       "bse,ehd->bshd", "bshd,hde->bse",   "bshd,bse->ehd",
                           "bshd,bse->hde",   "bshd,ehd->bse", "bij,bjk->bik",    "bij,bkj->bik",
                           "ij,kj->ki",       "ab,cb->ca",     "bshd,bthd->bhst", "bhst,bthd->bshd",
                           "bhst,bshd->bthd", "mk,kn->nm",     "km,kn->mn",       "km,nk->nm",
                           "m,n->mn",         "m,n->nm",       "k,k->",           "bk,bk->b",
                           "bk,kn->bn",       "k,kn->n",       "mk,k->m",         "bsh,bs->bsh",
                           "i,i->i",          ",->",           "m,->m",           "abcd,dcba->",
                           "bse,ve->bsv"})
    for (int round = 0; round < 12; ++round) {
      const Einsum einsum = einsum_of(text);
      check(generator, einsum, random_extents(generator, einsum, kExtents));
    }
}

// An einsum in which every letter is in two or all three of a, b, out. The letters of each operand
// are in random order.
Einsum random_einsum(Generator& generator) {
  Einsum einsum;
  const int64_t letters = random_int(generator, 1, 6);
  for (int64_t i = 0; i < letters; ++i) {
    const char letter = static_cast<char>('a' + i);
    const int64_t kind = random_int(generator, 0, 3);
    if (kind != 0) einsum.a += letter;
    if (kind != 1) einsum.b += letter;
    if (kind != 2) einsum.out += letter;
  }
  for (std::string* operand : {&einsum.a, &einsum.b, &einsum.out})
    std::shuffle(operand->begin(), operand->end(), generator);
  return einsum;
}

TEST(DotKernels, AnyLettersInAnyOrderEqualTheReference) {
  Generator generator(2);
  constexpr int64_t kExtents[] = {1, 2, 3, 4, 5};
  for (int round = 0; round < 1500; ++round) {
    const Einsum einsum = random_einsum(generator);
    check(generator, einsum, random_extents(generator, einsum, kExtents));
  }
}

TEST(DotKernels, ExtentsOfZeroGiveEmptyResultsOrZeros) {
  Generator generator(3);
  constexpr int64_t kExtents[] = {0, 1, 2, 3};
  for (int round = 0; round < 500; ++round) {
    const Einsum einsum = random_einsum(generator);
    check(generator, einsum, random_extents(generator, einsum, kExtents));
  }
  Tensors inputs;
  inputs.emplace_back(TensorType{DType::kF32, {2, 0}});
  inputs.emplace_back(TensorType{DType::kF32, {0, 3}});
  const Tensors out =
      run_fast(dot_call(einsum_of("mk,kn->mn"), {{'m', 2}, {'k', 0}, {'n', 3}}), inputs);
  for (float x : out[0].values<float>()) EXPECT_EQ(x, 0.0f);
}

TEST(DotKernels, ExtentsBeyondTheBlocksOfTheLibraryEqualTheReference) {
  Generator generator(4);
  check(generator, einsum_of("mk,kn->mn"), {{'m', 65}, {'k', 129}, {'n', 70}});
  check(generator, einsum_of("mk,nk->nm"), {{'m', 50}, {'k', 300}, {'n', 33}});
  check(generator, einsum_of("bshd,bthd->bhst"),
        {{'b', 2}, {'s', 17}, {'t', 19}, {'h', 3}, {'d', 16}});
}

TEST(DotKernels, OperandsInMatrixOrderNeedNoWorkspace) {
  const Extents extents = {{'a', 3}, {'b', 4}, {'c', 5}, {'s', 3}, {'t', 4}, {'h', 6}, {'d', 7},
                           {'e', 8}, {'m', 5}, {'k', 6}, {'n', 7}, {'i', 3}, {'j', 4}};
  for (const char* text :
       {"mk,kn->mn", "km,nk->nm", "mk,nk->mn", "bse,ehd->bshd", "bshd,hde->bse", "bshd,bse->ehd",
        "bij,bjk->bik", "bshd,bthd->bhst", "bhst,bthd->bshd", "ab,cb->ca"})
    EXPECT_EQ(bind_kernel(dot_call(einsum_of(text), extents)).workspace, Bytes(0)) << text;
  // The rows b and s of a are apart in memory, and so are its inner letters h and d: a is packed,
  // 4*3*6*7 floats = 2016 bytes in 2048.
  EXPECT_EQ(bind_kernel(dot_call(einsum_of("bhsd,hde->bse"), extents)).workspace, Bytes(2048));
}

TEST(DotKernels, IllFormedEinsumsAreRefusedWhenTheCallIsBound) {
  const Extents extents = {{'m', 2}, {'k', 3}, {'n', 4}, {'x', 5}};
  EXPECT_THROW(bind_kernel(dot_call(einsum_of("mx,kn->mn"), extents)),
               InternalError);  // x occurs once
  EXPECT_THROW(bind_kernel(dot_call(einsum_of("mm,mn->mn"), extents)),
               InternalError);  // m twice in one operand
  EXPECT_THROW(bind_kernel(dot_call(einsum_of("mk,kn->mnx"), extents)), InternalError);
  LocalCall call = dot_call(einsum_of("mk,kn->mn"), extents);
  call.inputs[1].shape[0] = 7;  // k is 3 in a
  EXPECT_THROW(bind_kernel(call), InternalError);
  call.text = "mk kn";
  EXPECT_THROW(bind_kernel(call), InternalError);
}

}  // namespace
}  // namespace tessera
