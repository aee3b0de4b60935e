// Element types: one table of their properties, and the C++ types that store elements.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// Element types of tensors. A bool is one byte, 0 or 1.
enum class DType : uint8_t { kF32, kI32, kBool, kF64, kI64, kI8, kU8, kF16, kBF16 };

enum class NumberKind : uint8_t { kBool, kInteger, kFloat };

struct DTypeTraits {
  DType dtype;
  std::string_view text;  // its name in types, attributes and configurations
  int64_t size;           // bytes of an element
  NumberKind kind;
  double unit_roundoff;  // relative error of one rounding; 0 for exact types
  DType accumulator;     // the type of sums of many elements
  std::string_view mpi;  // MPI_BYTE: MPI transfers it, but does not compute with it
  std::string_view safetensors;
};

/// These are in the order of DType.
inline constexpr std::array<DTypeTraits, 9> kDTypes{{
    {DType::kF32, "f32", 4, NumberKind::kFloat, 0x1p-24, DType::kF32, "MPI_FLOAT", "F32"},
    {DType::kI32, "i32", 4, NumberKind::kInteger, 0, DType::kI32, "MPI_INT32_T", "I32"},
    {DType::kBool, "bool", 1, NumberKind::kBool, 0, DType::kBool, "MPI_BYTE", "BOOL"},
    {DType::kF64, "f64", 8, NumberKind::kFloat, 0x1p-53, DType::kF64, "MPI_DOUBLE", "F64"},
    {DType::kI64, "i64", 8, NumberKind::kInteger, 0, DType::kI64, "MPI_INT64_T", "I64"},
    {DType::kI8, "i8", 1, NumberKind::kInteger, 0, DType::kI32, "MPI_INT8_T", "I8"},
    {DType::kU8, "u8", 1, NumberKind::kInteger, 0, DType::kI32, "MPI_UINT8_T", "U8"},
    {DType::kF16, "f16", 2, NumberKind::kFloat, 0x1p-11, DType::kF32, "MPI_BYTE", "F16"},
    {DType::kBF16, "bf16", 2, NumberKind::kFloat, 0x1p-8, DType::kF32, "MPI_BYTE", "BF16"},
}};

constexpr const DTypeTraits& traits(DType dtype) {
  return kDTypes[static_cast<uint8_t>(dtype)];
}
constexpr int64_t size_of(DType dtype) {
  return traits(dtype).size;
}
/// "f32", "bool", "bf16".
constexpr std::string_view to_text(DType dtype) {
  return traits(dtype).text;
}
constexpr bool is_float(DType dtype) {
  return traits(dtype).kind == NumberKind::kFloat;
}
constexpr bool is_integer(DType dtype) {
  return traits(dtype).kind == NumberKind::kInteger;
}
constexpr double unit_roundoff(DType dtype) {
  return traits(dtype).unit_roundoff;
}

/// "f32, i32, bool, f64, i64, i8, u8, f16 or bf16", for messages.
std::string dtype_names();
///   throws  UserError when `text` names no element type
DType parse_dtype(std::string_view text);

/// An IEEE 754 binary16 number: 5 bits of exponent, 10 of fraction. It is for storage; arithmetic
/// converts it first.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  /// Rounds to the nearest number, ties to even; overflow gives an infinity.
  explicit Float16(double value);
  static Float16 of_bits(uint16_t bits) { return std::bit_cast<Float16>(bits); }
  double to_double() const;
  bool operator==(const Float16&) const = default;  // compares the bits
};

/// The upper half of an IEEE 754 binary32 number: 8 bits of exponent, 7 of fraction.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to the nearest number, ties to even; overflow gives an infinity.
  explicit BFloat16(double value);
  static BFloat16 of_bits(uint16_t bits) { return std::bit_cast<BFloat16>(bits); }
  double to_double() const;
  bool operator==(const BFloat16&) const = default;  // compares the bits
};

/// The element type of a C++ type. uint8_t stands for bool; it also stores u8.
template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::kBool;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::kI64;
}
template <>
constexpr DType dtype_of<int8_t>() {
  return DType::kI8;
}
template <>
constexpr DType dtype_of<Float16>() {
  return DType::kF16;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::kBF16;
}

/// Are elements of `dtype` objects of type T in memory?
template <typename T>
constexpr bool is_stored_as(DType dtype) {
  return dtype == dtype_of<T>() || (dtype == DType::kU8 && dtype_of<T>() == DType::kBool);
}

}  // namespace tessera
