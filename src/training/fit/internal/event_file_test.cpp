#include "training/fit/internal/event_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/files/file.h"
#include "base/testing/test_folder.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    text += {kDigits[value / 16], kDigits[value % 16]};
  }
  return text;
}

TEST(EventFile, TheFirstRecordIsThatOfTheFormat) {
  const std::string data = version_event(0);
  EXPECT_EQ(hex(data),
            "09"
            "0000000000000000"  // 1: double 0
            "1a"
            "0d"
            "627261696e2e4576656e743a32");  // 3: "brain.Event:2"
  // The bytes are known from files of TensorFlow: 24 bytes, and the masked checksum of their
  // number.
  EXPECT_EQ(hex(event_record(data).substr(0, 12)), "1800000000000000a37f4b22");
}

TEST(EventFile, AScalarIsWrittenByteByByte) {
  EXPECT_EQ(hex(scalars_event(1.0, 300, {{"a", 0.5}})),
            "09"
            "000000000000f03f"  // 1: double 1
            "10"
            "ac02"  // 2: 300 = 0x2c + 2 * 128
            "2a"
            "0a"  // 5: ten bytes of summary
            "0a"
            "08"  // 1: eight bytes of value
            "0a"
            "01"
            "61"  // 1: "a"
            "15"
            "0000003f");  // 2: float 0.5
}

// ---- an independent reader: bit by bit for the checksum, and only the expected fields ----

uint32_t checksum_bit_by_bit(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
  }
  return ~crc;
}

uint32_t masked_by_the_format(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

struct Reader {
  std::string_view bytes;

  std::string_view take(size_t count) {
    EXPECT_LE(count, bytes.size());
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(taken.size());
    return taken;
  }
  template <typename Number>
  Number number() {
    Number value{};
    const std::string_view raw = take(sizeof(Number));
    std::memcpy(&value, raw.data(), raw.size());
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
  std::string_view record() {
    const std::string_view length_bytes = bytes.substr(0, 8);
    const auto length = number<uint64_t>();
    EXPECT_EQ(number<uint32_t>(), masked_by_the_format(checksum_bit_by_bit(length_bytes)));
    const std::string_view data = take(length);
    EXPECT_EQ(number<uint32_t>(), masked_by_the_format(checksum_bit_by_bit(data)));
    return data;
  }
};

struct ReadScalar {
  int64_t step = 0;
  std::string tag;
  float value = 0;
  bool operator==(const ReadScalar&) const = default;
};

std::vector<ReadScalar> scalars_of(const std::string& file) {
  Reader reader{file};
  EXPECT_EQ(reader.record().substr(11), "brain.Event:2");
  std::vector<ReadScalar> scalars;
  while (!reader.bytes.empty()) {
    Reader event{reader.record()};
    EXPECT_EQ(event.varint(), 9u);  // field 1, eight bytes
    EXPECT_GT(event.number<double>(), 0);
    EXPECT_EQ(event.varint(), 16u);  // field 2, varint
    const auto step = static_cast<int64_t>(event.varint());
    EXPECT_EQ(event.varint(), 42u);  // field 5, bytes
    Reader summary{event.take(event.varint())};
    while (!summary.bytes.empty()) {
      EXPECT_EQ(summary.varint(), 10u);  // field 1, bytes
      Reader value{summary.take(summary.varint())};
      EXPECT_EQ(value.varint(), 10u);  // field 1, bytes
      const std::string tag(value.take(value.varint()));
      EXPECT_EQ(value.varint(), 21u);  // field 2, four bytes
      scalars.push_back({step, tag, value.number<float>()});
    }
  }
  return scalars;
}

TEST(EventFile, AReaderOfTheFormatFindsEveryScalar) {
  const TestFolder folder;
  EventFile file(folder.path());
  const std::string long_tag(200, 'x');  // its length takes two bytes
  file.add(1, {{"train/loss", 2.5}, {"train/lr", -1e-3}});
  file.add(int64_t{1} << 40, {{long_tag, std::numeric_limits<double>::infinity()}});
  EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents."));
  EXPECT_EQ(scalars_of(read_file(file.path())),
            (std::vector<ReadScalar>{
                {1, "train/loss", 2.5f},
                {1, "train/lr", -1e-3f},
                {int64_t{1} << 40, long_tag, std::numeric_limits<float>::infinity()}}));
}

}  // namespace
}  // namespace tessera
