#include "runtime/comm/internal/failure_bytes.h"

#include <cstdint>
#include <string>

#include "base/error.h"
#include "runtime/comm/plain_bytes.h"

namespace tessera {
namespace {

constexpr size_t kMaxText = 600;
constexpr std::string_view kInternalPrefix = "internal error: ";

void put_cut(std::vector<std::byte>& bytes, std::string_view text) {
  put_text(bytes, text.substr(0, kMaxText));
}

}  // namespace

std::vector<std::byte> to_bytes(const Failure& failure) {
  std::string what, why, fix;
  int32_t code = -1;  // not a UserError
  try {
    std::rethrow_exception(failure.error);
  } catch (const UserError& error) {
    what = error.what_happened();
    why = error.why();
    fix = error.fix();
    code = static_cast<int32_t>(error.exit_code());
  } catch (const std::exception& error) {
    what = error.what();
    if (what.starts_with(kInternalPrefix)) what.erase(0, kInternalPrefix.size());
  } catch (...) {
    what = "something that is not an exception was thrown";
  }
  std::vector<std::byte> bytes;
  put<int32_t>(bytes, failure.rank);
  put(bytes, code);
  for (const std::string_view text :
       {std::string_view(failure.task), std::string_view(failure.op), std::string_view(what),
        std::string_view(why), std::string_view(fix)})
    put_cut(bytes, text);
  return bytes;
}

Failure failure_from(std::span<const std::byte> bytes) {
  PlainReader reader(bytes);
  Failure failure;
  failure.rank = reader.value<int32_t>();
  const auto code = reader.value<int32_t>();
  failure.task = reader.text();
  failure.op = reader.text();
  const std::string what = reader.text(), why = reader.text(), fix = reader.text();
  failure.error =
      code < 0 ? std::make_exception_ptr(InternalError(what))
               : std::make_exception_ptr(UserError(what, why, fix, static_cast<ExitCode>(code)));
  return failure;
}

}  // namespace tessera
