/* atomic_file.c: what it replaces, what it writes in place, and that it leaves nothing behind. */
#define _XOPEN_SOURCE 700 /* S_ISVTX */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "support/test.h"
#include "support/folder.h"

enum { NOBODY = 65534 };

static Error error;

/* Each test has the working folder for itself. */
static int enter_folder(void **state) {
  folder_open(state);
  assert_int_equal(chdir(folder), 0);
  return 0;
}

static int leave_folder(void **state) {
  assert_int_equal(chdir("/"), 0);
  return folder_close(state);
}

/* ---- files --------------------------------------------------------------------------------- */

static void assert_has(const char *path, const char *text) {
  char got[256] = "";
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_true(fread(got, 1, sizeof got - 1, file) < sizeof got - 1);
  fclose(file);
  assert_string_equal(got, text);
}

static int files_here(void) {
  int count = 0;
  DIR *directory = opendir(".");
  assert_non_null(directory);
  while (readdir(directory)) count++;
  closedir(directory);
  return count - 2; /* . and .. */
}

static struct stat status_of(const char *path) {
  struct stat status;
  assert_int_equal(lstat(path, &status), 0);
  return status;
}

static bool save(const char *path, const char *text) {
  AtomicFile output;
  if (!atomic_file_open(&output, path, &error)) return false;
  fputs(text, output.file);
  return atomic_file_close(&output, true, &error);
}

static void must_save(const char *path, const char *text) {
  if (!save(path, text)) fail_msg("%s", error.text);
}

/* Neither written nor promised to be, and nothing was touched. */
static void assert_refused(const char *path, const char *reason) {
  char expected[8192];
  const int files = files_here();
  snprintf(expected, sizeof expected, "cannot write %s: %s", path, reason);
  for (int probe = 0; probe < 2; probe++) {
    error.text[0] = '\0';
    if (probe ? atomic_file_probe(path, &error) : save(path, "new")) fail_msg("%s", path);
    assert_string_equal(error.text, expected);
  }
  assert_int_equal(files_here(), files);
}

/* ---- replacing ----------------------------------------------------------------------------- */

#define IN_FOLDER(name) TEST_WITH(name, enter_folder, leave_folder)

IN_FOLDER(old_or_new) {
  AtomicFile output;
  folder_write("a", "old");
  assert_true(atomic_file_open(&output, "a", &error));
  fputs("new", output.file);
  fflush(output.file);
  assert_has("a", "old");
  assert_true(atomic_file_close(&output, true, &error));
  assert_has("a", "new");
  assert_true(atomic_file_open(&output, "a", &error));
  fputs("newer", output.file);
  assert_false(atomic_file_close(&output, false, &error));
  assert_has("a", "new");
  assert_int_equal(files_here(), 1);
}

/* Of two at a time both are whole, whatever their process ids are. */
IN_FOLDER(two_at_a_time) {
  AtomicFile first, second;
  assert_true(atomic_file_open(&first, "a", &error));
  assert_true(atomic_file_open(&second, "a", &error));
  fputs("the first", first.file);
  fputs("second", second.file);
  assert_true(atomic_file_close(&first, true, &error));
  assert_has("a", "the first");
  assert_true(atomic_file_close(&second, true, &error));
  assert_has("a", "second");
  assert_int_equal(files_here(), 1);
}

/* A link that waits where the temporary file's name could be guessed, or a file of a dead run. */
IN_FOLDER(planted_and_stale) {
  char guessed[64];
  folder_write("victim", "precious");
  snprintf(guessed, sizeof guessed, "a.tmp.%ld", (long)getpid());
  assert_int_equal(symlink("victim", guessed), 0);
  must_save("a", "new");
  assert_has("a", "new");
  assert_has("victim", "precious");
  assert_int_equal(unlink(guessed), 0);
  folder_write(guessed, "stale");
  assert_int_equal(chmod(guessed, 0), 0);
  must_save("a", "newer");
  assert_has("a", "newer");
  assert_int_equal(files_here(), 3);
}

IN_FOLDER(links_are_followed) {
  folder_write("old", "old");
  assert_int_equal(mkdir("sub", 0700), 0);
  assert_int_equal(symlink("old", "link"), 0);
  assert_int_equal(symlink("link", "sub/wrong"), 0);
  assert_int_equal(symlink("../link", "sub/link"), 0);
  assert_int_equal(symlink("sub/new", "to-new"), 0);
  must_save("sub/link", "new");
  assert_has("old", "new");
  must_save("to-new", "first");
  assert_has("sub/new", "first");
  must_save("to-new", "second");
  assert_has("sub/new", "second");
  must_save("sub/wrong", "there");
  assert_has("sub/link", "there"); /* it names sub/link, which leads to old */
  assert_true(S_ISLNK(status_of("link").st_mode) && S_ISLNK(status_of("sub/link").st_mode));
  assert_true(S_ISLNK(status_of("to-new").st_mode) && S_ISLNK(status_of("sub/wrong").st_mode));
  assert_int_equal(files_here(), 4);
  assert_int_equal(symlink("circle", "circle"), 0);
  assert_refused("circle", strerror(ELOOP));
}

/* Whoever has the old one open goes on reading it, and so does its other name. */
IN_FOLDER(hard_links_keep_the_old) {
  folder_write("a", "old");
  assert_int_equal(link("a", "b"), 0);
  must_save("a", "new");
  assert_has("a", "new");
  assert_has("b", "old");
}

IN_FOLDER(long_names) {
  char name[256];
  for (size_t length = 240; length <= 255; length += 15) {
    memset(name, 'n', length);
    name[length] = '\0';
    assert_true(atomic_file_probe(name, &error));
    must_save(name, "new");
    assert_has(name, "new");
  }
  assert_int_equal(files_here(), 2);
}

/* ---- modes and owners ---------------------------------------------------------------------- */

IN_FOLDER(mode_is_kept) {
  static const mode_t modes[] = {0600, 0640, 0755, 0666};
  folder_write("a", "old");
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    assert_int_equal(chmod("a", modes[i]), 0);
    must_save("a", "new");
    assert_int_equal(status_of("a").st_mode & 07777, modes[i]);
  }
  const mode_t old = umask(027);
  must_save("b", "new");
  umask(old);
  assert_int_equal(status_of("b").st_mode & 07777, 0640);
}

/* While it is written, nobody else reads what they may not read of the old one. */
IN_FOLDER(temporary_is_as_private) {
  AtomicFile output;
  struct stat status;
  folder_write("a", "old");
  assert_int_equal(chmod("a", 0600), 0);
  assert_true(atomic_file_open(&output, "a", &error));
  assert_int_equal(fstat(fileno(output.file), &status), 0);
  assert_int_equal(status.st_mode & 0777, 0600);
  assert_true(atomic_file_close(&output, true, &error));
}

static void need_root(void) {
  if (geteuid() == 0) return;
  print_message("only root can give files away\n");
  skip();
}

IN_FOLDER(owner_is_kept) {
  need_root();
  folder_write("a", "old");
  assert_int_equal(chown("a", 1234, 4321), 0);
  must_save("a", "new");
  assert_int_equal(status_of("a").st_uid, 1234);
  assert_int_equal(status_of("a").st_gid, 4321);
}

/* The new owner gets the owner's permissions, and nobody gets more than before. */
IN_FOLDER(owner_that_cannot_be_kept) {
  need_root();
  folder_write("a", "old");
  assert_int_equal(chmod("a", 0662), 0);
  assert_int_equal(chmod(folder, 0777), 0);
  assert_int_equal(seteuid(NOBODY), 0);
  const bool saved = save("a", "new");
  assert_int_equal(seteuid(0), 0);
  assert_true(saved);
  assert_int_equal(status_of("a").st_uid, NOBODY);
  assert_int_equal(status_of("a").st_mode & 07777, 0662); /* its group is ours */
  folder_write("b", "old");
  assert_int_equal(chown("b", 0, 4321), 0);
  assert_int_equal(chmod("b", 0662), 0);
  assert_int_equal(seteuid(NOBODY), 0);
  const bool saved_too = save("b", "new");
  assert_int_equal(seteuid(0), 0);
  assert_true(saved_too);
  assert_int_not_equal(status_of("b").st_gid, 4321);
  assert_int_equal(status_of("b").st_mode & 07777, 0622);
}

/* ---- what cannot be written ---------------------------------------------------------------- */

static void refuse(const char *path, const char *reason) {
  const uid_t user = geteuid();
  if (user == 0) assert_int_equal(seteuid(NOBODY), 0); /* root may write everywhere */
  assert_refused(path, reason);
  if (user == 0) assert_int_equal(seteuid(user), 0);
}

IN_FOLDER(read_only) {
  folder_write("a", "old");
  if (geteuid() == 0) assert_int_equal(chown("a", NOBODY, NOBODY), 0);
  assert_int_equal(chmod("a", 0444), 0);
  assert_int_equal(symlink("a", "link"), 0);
  assert_int_equal(chmod(folder, 0777), 0);
  refuse("a", strerror(EACCES));
  refuse("link", strerror(EACCES));
  assert_has("a", "old");
  assert_int_equal(chmod("a", 0666), 0);
  assert_int_equal(chmod(folder, 0555), 0);
  refuse("a", strerror(EACCES));
  refuse("new", strerror(EACCES));
  assert_int_equal(chmod(folder, 0755), 0);
}

/* In a folder like /tmp nobody replaces the files of others: said before the run, not after it. */
IN_FOLDER(sticky_folder) {
  need_root();
  folder_write("a", "old");
  assert_int_equal(chmod("a", 0666), 0);
  assert_int_equal(chmod(folder, 0777 | S_ISVTX), 0);
  refuse("a", strerror(EPERM));
  assert_has("a", "old");
}

IN_FOLDER(no_place) {
  char name[300];
  folder_write("a", "old");
  assert_int_equal(symlink("none/new", "link"), 0);
  assert_refused("none/new", "its folder does not exist");
  assert_refused("link", "its folder does not exist");
  assert_refused("new/", "its folder does not exist");
  assert_refused("", "its folder does not exist");
  assert_refused("a/new", strerror(ENOTDIR));
  assert_refused("a/", strerror(ENOTDIR));
  assert_refused(".", strerror(EISDIR));
  assert_refused(folder, strerror(EISDIR));
  memset(name, 'n', sizeof name);
  name[sizeof name - 1] = '\0';
  assert_refused(name, strerror(ENAMETOOLONG));
  assert_refused("/dev/fd/9999", strerror(EBADF));
}

/* Writing that fails, at the latest when the file is closed, leaves the old file and no other. */
IN_FOLDER(failed_writes) {
  struct rlimit old, small;
  char text[2000];
  memset(text, 't', sizeof text);
  text[sizeof text - 1] = '\0';
  folder_write("a", "old");
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
  small = (struct rlimit){1000, old.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  const bool saved = save("a", text);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, handler);
  assert_false(saved);
  assert_non_null(strstr(error.text, strerror(EFBIG)));
  assert_has("a", "old");
  assert_int_equal(files_here(), 1);
}

/* However many are open, and whatever became of them, their places are free again. */
IN_FOLDER(many_at_a_time) {
  enum { MANY = 100 };
  static AtomicFile outputs[MANY];
  for (int round = 0; round < 3; round++) {
    int count = 0;
    while (count < MANY && atomic_file_open(&outputs[count], "a", &error)) count++;
    assert_in_range(count, 6, MANY - 1);
    assert_non_null(strstr(error.text, strerror(EMFILE)));
    assert_int_equal(files_here(), count + (round > 0));
    for (int i = 0; i < count; i++)
      assert_int_equal(atomic_file_close(&outputs[i], i % 2, &error), i % 2);
    assert_int_equal(files_here(), 1);
  }
}

IN_FOLDER(a_probe_leaves_no_trace) {
  assert_true(atomic_file_probe("a", &error));
  assert_int_equal(files_here(), 0);
  folder_write("a", "old");
  const struct stat before = status_of("a");
  assert_int_equal(symlink("new", "link"), 0);
  assert_true(atomic_file_probe("a", &error));
  assert_true(atomic_file_probe("link", &error));
  assert_true(before.st_ino == status_of("a").st_ino);
  assert_has("a", "old");
  assert_int_equal(files_here(), 2);
}

/* ---- in place ------------------------------------------------------------------------------ */

IN_FOLDER(pipes_and_devices) {
  char got[16] = "";
  assert_int_equal(mkfifo("pipe", 0600), 0);
  assert_int_equal(symlink("pipe", "link"), 0);
  assert_true(atomic_file_probe("link", &error)); /* without a reader */
  const int reader = open("pipe", O_RDONLY | O_NONBLOCK);
  assert_true(reader >= 0);
  must_save("link", "new");
  assert_int_equal(read(reader, got, sizeof got - 1), 3);
  assert_string_equal(got, "new");
  close(reader);
  assert_true(S_ISFIFO(status_of("pipe").st_mode) && S_ISLNK(status_of("link").st_mode));
  assert_int_equal(symlink("/dev/null", "null"), 0);
  assert_true(atomic_file_probe("null", &error));
  must_save("null", "new");
  assert_true(S_ISLNK(status_of("null").st_mode));
  assert_true(S_ISCHR(status_of("/dev/null").st_mode));
  assert_int_equal(files_here(), 3);
}

/* A link as /dev/stdout is one, to a descriptor that the shell sent to a file: written through, at
   its offset. */
IN_FOLDER(descriptors) {
  static const char *const forms[] = {"/dev/fd/%d", "/proc/self/fd/%d"};
  char path[64];
  const int file = open("a", O_WRONLY | O_CREAT, 0600);
  assert_true(file >= 0);
  assert_int_equal(write(file, "1 ", 2), 2);
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, forms[i], file);
    if (i == 1 && access("/proc/self/fd", F_OK) != 0) continue;
    unlink("link");
    assert_int_equal(symlink(path, "link"), 0);
    assert_true(atomic_file_probe(path, &error));
    assert_true(atomic_file_probe("link", &error));
    must_save(path, "2 ");
    must_save("link", "3 ");
    assert_true(S_ISLNK(status_of("link").st_mode));
  }
  assert_int_equal(write(file, "4", 1), 1);
  close(file);
  assert_has("a", access("/proc/self/fd", F_OK) == 0 ? "1 2 3 2 3 4" : "1 2 3 4");
  assert_int_equal(files_here(), 2);
  const int reader = open("a", O_RDONLY);
  snprintf(path, sizeof path, "/dev/fd/%d", reader);
  assert_refused(path, strerror(EBADF));
  close(reader);
}

/* What was printed before stands before it. */
IN_FOLDER(standard_output) {
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const int file = open("a", O_WRONLY | O_CREAT, 0600);
    if (dup2(file, STDOUT_FILENO) < 0) _exit(1);
    printf("before ");
    const bool saved = save("/dev/fd/1", "rows ");
    printf("after");
    fflush(stdout);
    _exit(!saved);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_has("a", "before rows after");
}

/* ---- ends of the process ------------------------------------------------------------------- */

static void on_signal(int number) {
  atomic_file_remove_temporaries(); // NOLINT(bugprone-signal-handler): it only unlinks
  signal(number, SIG_DFL);
  raise(number);
}

IN_FOLDER(signals) {
  folder_write("a", "old");
  for (int round = 0; round < 2; round++) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      AtomicFile first, second;
      signal(SIGTERM, on_signal);
      if (round == 1 && !save("a", "new")) _exit(1); /* what is done is not removed */
      if (!atomic_file_open(&first, "a", NULL) || !atomic_file_open(&second, "b", NULL)) _exit(1);
      fputs("newer", first.file);
      fflush(first.file);
      raise(SIGTERM);
      _exit(2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_has("a", round ? "new" : "old");
    assert_int_equal(files_here(), 1);
  }
}
