# What every file of the project is compiled and linked with.
add_library(oncerun_flags INTERFACE)
target_compile_options(oncerun_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Wformat=2 -fno-strict-aliasing -ffunction-sections -fdata-sections)
target_compile_definitions(oncerun_flags INTERFACE _GNU_SOURCE _FILE_OFFSET_BITS=64)
target_include_directories(oncerun_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
option(ONCERUN_WERROR "treat warnings as errors" OFF)
if(ONCERUN_WERROR)
  target_compile_options(oncerun_flags INTERFACE -Werror)
endif()

# What the fuzz targets link is compiled with libFuzzer's counters, where there is clang, and with
# both sanitizers on request: they double the time of the build. The debug information says file and
# line and nothing else.
option(ONCERUN_FUZZ_SANITIZE "build the fuzz targets with AddressSanitizer and UBSan" OFF)
if(ONCERUN_FUZZ)
  target_compile_options(oncerun_flags INTERFACE -O1 -g1)
  target_compile_definitions(oncerun_flags INTERFACE _GLIBCXX_ASSERTIONS)
  if(ONCERUN_FUZZ_SANITIZE)
    set(oncerun_fuzz_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
    target_compile_options(oncerun_flags INTERFACE -fno-omit-frame-pointer ${oncerun_fuzz_flags})
    target_link_options(oncerun_flags INTERFACE ${oncerun_fuzz_flags})
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(oncerun_flags INTERFACE -fsanitize=fuzzer-no-link)
  endif()
endif()

# The binary: third-party code static, libc dynamic, nothing unused kept. A wrapper is paid for
# at every start, and each shared library costs 0.1 to 0.8 ms there.
add_library(oncerun_link INTERFACE)
if(NOT CMAKE_BUILD_TYPE MATCHES "Sanitize")
  target_link_options(oncerun_link INTERFACE
    -static-libstdc++ -static-libgcc -Wl,--gc-sections,-O1,--as-needed -Wl,-z,pack-relative-relocs)
endif()
if(ONCERUN_STATIC)
  target_link_options(oncerun_link INTERFACE -static)
endif()

# Debug information and checks; one build type so that presets stay one line each.
# g++ 12 takes what the sanitizers add to libstdc++'s <regex> for uninitialised reads.
set(CMAKE_CXX_FLAGS_SANITIZE
    "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
-Wno-maybe-uninitialized")
set(CMAKE_C_FLAGS_SANITIZE "${CMAKE_CXX_FLAGS_SANITIZE}")
set(CMAKE_EXE_LINKER_FLAGS_SANITIZE "-fsanitize=address,undefined")

# Counters for tests/coverage.sh. Processes of a test add theirs to the same files at once.
set(CMAKE_CXX_FLAGS_COVERAGE "-O0 -g --coverage -fprofile-update=atomic")
set(CMAKE_C_FLAGS_COVERAGE "${CMAKE_CXX_FLAGS_COVERAGE}")
set(CMAKE_EXE_LINKER_FLAGS_COVERAGE "--coverage")
