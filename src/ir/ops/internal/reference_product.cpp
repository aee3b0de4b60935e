#include "ir/ops/internal/reference_product.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor/split.h"
#include "base/threads/on_all_cores.h"

namespace tessera {
namespace {

// The letters form four groups: those of a, b and the result ("batch"), of a and the result
// ("rows"), of b and the result ("columns"), and of a and b ("inner"). The operands are copied into
// [batch][rows][inner] and [batch][inner][columns]; each batch is one product of matrices.

constexpr int64_t kRows = 4;      // of a tile of the result that is in registers
constexpr int64_t kColumns = 16;  // the same
constexpr int64_t kInner = 256;   // terms that are added in registers
constexpr double kThreadedProducts = 1 << 23;

struct Matrices {
  int64_t batch = 1, rows = 1, inner = 1, columns = 1;
};

// ---- one tile ----

/// Several columns of a row: operators work on each element.
using Columns [[gnu::vector_size(8 * sizeof(double))]] = double;
constexpr int64_t kVectors = kColumns / 8;  // of a row of the tile

/// The product of kRows x inner and inner x kColumns.
///   a  of rows that are a_step apart
///   b  kColumns in a row, without gaps
[[gnu::always_inline]] inline void tile_body(int64_t inner, const double* a, int64_t a_step,
                                             const double* b, double* out) {
  Columns sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < inner; ++k) {
    Columns row[kVectors];
    std::memcpy(row, b + k * kColumns, sizeof row);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t v = 0; v < kVectors; ++v) sums[r][v] += a[r * a_step + k] * row[v];
  }
  std::memcpy(out, sums, sizeof sums);
}

using TileProduct = void (*)(int64_t, const double*, int64_t, const double*, double*);

void tile_any(int64_t inner, const double* a, int64_t a_step, const double* b, double* out) {
  tile_body(inner, a, a_step, b, out);
}

// One body, compiled for several instruction sets, of which the program chooses one when it starts.
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void tile_avx2(int64_t inner, const double* a, int64_t a_step,
                                           const double* b, double* out) {
  tile_body(inner, a, a_step, b, out);
}
[[gnu::target("avx512f")]] void tile_avx512(int64_t inner, const double* a, int64_t a_step,
                                            const double* b, double* out) {
  tile_body(inner, a, a_step, b, out);
}

TileProduct tile_of_machine() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return tile_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return tile_avx2;
  return tile_any;
}
#else
TileProduct tile_of_machine() {
  return tile_any;
}
#endif

const TileProduct kTileProduct = tile_of_machine();

int64_t rounded_up(int64_t extent, int64_t multiple) {
  return (extent + multiple - 1) / multiple * multiple;
}

// ---- copies of the operands ----

/// The letters of a tensor, and how far apart its neighbours are.
struct Letters {
  std::string letters;
  Shape shape;
  Dims strides;

  Letters(std::string text, const Shape& of)
      : letters(std::move(text)), shape(of), strides(row_major_strides(of)) {}
  int64_t extent(char letter) const { return shape[dim_of_letter(letters, letter)]; }
  int64_t stride(char letter) const {
    return has_letter(letters, letter) ? strides[dim_of_letter(letters, letter)] : 0;
  }
};

/// The offsets in a tensor of all combinations of `group`, the last letter fastest.
std::vector<int64_t> offsets_of(const std::string& group, const Letters& tensor,
                                const Letters& extents_of) {
  std::vector<int64_t> offsets{0};
  for (char letter : group) {
    const int64_t extent = extents_of.extent(letter), stride = tensor.stride(letter);
    std::vector<int64_t> longer;
    longer.reserve(offsets.size() * static_cast<size_t>(extent));
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < extent; ++i) longer.push_back(offset + i * stride);
    offsets = std::move(longer);
  }
  return offsets;
}

/// One product of matrices for each batch: where their elements are in the tensors.
class Product {
 public:
  Product(const Einsum& einsum, const Shape& a_shape, const Shape& b_shape) {
    const Letters a(einsum.a(), a_shape), b(einsum.b(), b_shape);
    Shape out_shape;
    for (char letter : einsum.result)
      out_shape.push_back(has_letter(a.letters, letter) ? a.extent(letter) : b.extent(letter));
    const Letters out(einsum.result, out_shape);
    std::string batch, rows, inner, columns;
    for (char letter : a.letters) {
      const bool in_b = has_letter(b.letters, letter), in_out = has_letter(out.letters, letter);
      (in_b ? in_out ? batch : inner : rows) += letter;
    }
    for (char letter : b.letters)
      if (!has_letter(a.letters, letter)) columns += letter;
    batch_ = {offsets_of(batch, a, a), offsets_of(batch, b, a), offsets_of(batch, out, a)};
    a_rows_ = offsets_of(rows, a, a);
    out_rows_ = offsets_of(rows, out, a);
    a_inner_ = offsets_of(inner, a, a);
    b_inner_ = offsets_of(inner, b, a);
    b_columns_ = offsets_of(columns, b, b);
    out_columns_ = offsets_of(columns, out, b);
  }

  Matrices sizes() const {
    return {std::ssize(batch_.out), std::ssize(a_rows_), std::ssize(a_inner_),
            std::ssize(b_columns_)};
  }

  /// Adds rows [begin, end) of batch `i`.  requires  begin is a multiple of kRows
  void add(int64_t i, Range rows, std::span<const double> a, std::span<const double> b,
           std::span<double> out) const;

 private:
  struct Batch {
    std::vector<int64_t> a, b, out;
  };

  Batch batch_;
  std::vector<int64_t> a_rows_, out_rows_, a_inner_, b_inner_, b_columns_, out_columns_;
};

void Product::add(int64_t i, Range rows, std::span<const double> a, std::span<const double> b,
                  std::span<double> out) const {
  const Matrices size = sizes();
  const double* a_begin = a.data() + batch_.a[i];
  const double* b_begin = b.data() + batch_.b[i];
  double* out_begin = out.data() + batch_.out[i];
  const int64_t padded = rounded_up(rows.size(), kRows);
  std::vector<double> a_block(static_cast<size_t>(padded * kInner));
  std::vector<double> b_block(kInner * kColumns);
  for (int64_t k = 0; k < size.inner; k += kInner) {
    const int64_t inner = std::min(kInner, size.inner - k);
    for (int64_t r = 0; r < rows.size(); ++r)
      for (int64_t t = 0; t < inner; ++t)
        a_block[r * kInner + t] = a_begin[a_rows_[rows.begin + r] + a_inner_[k + t]];
    for (int64_t c = 0; c < size.columns; c += kColumns) {
      const int64_t columns = std::min(kColumns, size.columns - c);
      for (int64_t t = 0; t < inner; ++t)
        for (int64_t j = 0; j < columns; ++j)
          b_block[t * kColumns + j] = b_begin[b_inner_[k + t] + b_columns_[c + j]];
      for (int64_t r = 0; r < rows.size(); r += kRows) {
        double tile[kRows * kColumns];
        kTileProduct(inner, a_block.data() + r * kInner, kInner, b_block.data(), tile);
        for (int64_t s = 0; s < std::min(kRows, rows.size() - r); ++s)
          for (int64_t j = 0; j < columns; ++j)
            out_begin[out_rows_[rows.begin + r + s] + out_columns_[c + j]] +=
                tile[s * kColumns + j];
      }
    }
  }
}

}  // namespace

void add_product(const Einsum& einsum, const Shape& a_shape, std::span<const double> a,
                 const Shape& b_shape, std::span<const double> b, std::span<double> out) {
  const Product product(einsum, a_shape, b_shape);
  const Matrices size = product.sizes();
  if (size.columns < size.rows && size.columns < kColumns) {  // a tile would be empty for the most
    add_product({{einsum.b(), einsum.a()}, einsum.result}, b_shape, b, a_shape, a, out);
    return;
  }
  constexpr int64_t kRowsOfTask = 256;
  const int64_t blocks = (size.rows + kRowsOfTask - 1) / kRowsOfTask;
  const auto block = [&](int64_t i) {
    const int64_t begin = i % blocks * kRowsOfTask;
    product.add(i / blocks, {begin, std::min(size.rows, begin + kRowsOfTask)}, a, b, out);
  };
  const double products = static_cast<double>(size.batch) * static_cast<double>(size.rows) *
                          static_cast<double>(size.inner) * static_cast<double>(size.columns);
  if (products >= kThreadedProducts)
    on_all_cores(size.batch * blocks, block);
  else
    for (int64_t i = 0; i < size.batch * blocks; ++i) block(i);
}

}  // namespace tessera
