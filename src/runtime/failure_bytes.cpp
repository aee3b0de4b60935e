#include "runtime/failure_bytes.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"

namespace tessera {
namespace {

constexpr size_t kMostText = 600;
constexpr std::string_view kMarkOfInternal = "internal error: ";

template <typename Number>
void put(std::vector<std::byte>& bytes, Number number) {
  const auto* begin = reinterpret_cast<const std::byte*>(&number);
  bytes.insert(bytes.end(), begin, begin + sizeof number);
}

void put(std::vector<std::byte>& bytes, std::string_view text) {
  text = text.substr(0, kMostText);
  put(bytes, static_cast<uint32_t>(text.size()));
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  bytes.insert(bytes.end(), begin, begin + text.size());
}

class FailureReader {
 public:
  explicit FailureReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Number>
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto bytes = take(number<uint32_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> take(size_t count) {
    ensure(count <= bytes_.size(), "a failure is told whole");
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  std::span<const std::byte> bytes_;
};

}  // namespace

std::vector<std::byte> to_bytes(const Failure& failure) {
  std::string what, why, fix;
  int32_t code = -1;  // of what is no UserError
  try {
    std::rethrow_exception(failure.error);
  } catch (const UserError& error) {
    what = error.what_happened(), why = error.why(), fix = error.fix(), code = static_cast<int32_t>(error.exit_code());
  } catch (const std::exception& error) {
    what = error.what();
    if (what.starts_with(kMarkOfInternal)) what.erase(0, kMarkOfInternal.size());
  } catch (...) {
    what = "something that is not an exception was thrown";
  }
  std::vector<std::byte> bytes;
  put(bytes, static_cast<int32_t>(failure.rank));
  put(bytes, code);
  for (const std::string_view text :
       {std::string_view(failure.task), std::string_view(failure.op), std::string_view(what), std::string_view(why), std::string_view(fix)})
    put(bytes, text);
  return bytes;
}

Failure failure_from(std::span<const std::byte> bytes) {
  FailureReader reader(bytes);
  Failure failure;
  failure.rank = reader.number<int32_t>();
  const auto code = reader.number<int32_t>();
  failure.task = reader.text();
  failure.op = reader.text();
  const std::string what = reader.text(), why = reader.text(), fix = reader.text();
  failure.error = code < 0 ? std::make_exception_ptr(InternalError(what))
                           : std::make_exception_ptr(UserError(what, why, fix, static_cast<ExitCode>(code)));
  return failure;
}

}  // namespace tessera
