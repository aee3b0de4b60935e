# Compiler flags of every target, ccache and mold where they are installed.
find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE)
  # ccache keeps what is compiled with a precompiled header if it may take its definitions as unchanged, and if no source
  # has __DATE__ or __TIME__; g++ has to name the header in what it preprocesses.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${TESSERA_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()
find_program(TESSERA_MOLD mold)
if(TESSERA_MOLD)
  # mold 1.10 places .tbss before the page on which the read-only relocated data begins when its alignment is smaller;
  # where a page ends between the two, the program does not start ("cannot apply additional memory protection"). Segments
  # on pages of their own have no such gap.
  add_link_options(-fuse-ld=mold -Wl,-z,separate-loadable-segments)
endif()

# What only prints, reads files, describes models or starts processes is compiled with -O1: see
# OPTIMIZATION of tessera_module.
set(CMAKE_CXX_FLAGS_RELEASE "-O3")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1 -D_GLIBCXX_ASSERTIONS")
# The libraries can become part of a shared library, such as a module of Python, which then exports only what it names.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 warns about freed and uninitialised memory inside libstdc++ at -O3 (GCC bugs 105562, 105329, 107852).
  add_compile_options(-Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-dangling-pointer)
else()
  # std::stable_sort of libstdc++ 12 calls a function that it has itself deprecated; g++ is silent about system headers.
  add_compile_options(-Wno-deprecated-declarations)
  # g++ leaves sign conversions out of -Wconversion for C++: a signed index of a container needs no cast.
  add_compile_options(-Wno-sign-conversion)
endif()
if(TESSERA_SANITIZE)
  # -O1: half the time to build, and stacks that can be read.
  add_compile_options(-O1 -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${TESSERA_SANITIZE})
endif()
