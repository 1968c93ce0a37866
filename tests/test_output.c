/* output.c: what a file replaces, its mode and owner, that nothing is left behind, and which paths
   are the same file. tests/scenarios/output.sh has links, places, pipes and descriptors. */
#define _XOPEN_SOURCE 700 /* S_ISVTX */
#include <fcntl.h>
#include <signal.h>

#include "base/interrupt.h"
#include "base/output.h"
#include "support/folder.h"
#include "support/process.h"

enum { NOBODY = 65534 };

/* Each test has the working folder for itself. */
#define IN_FOLDER(name) TEST_WITH(name, folder_enter, folder_close)

/* ---- files --------------------------------------------------------------------------------- */

static void assert_has(const char *path, const char *text) {
  assert_string_equal(folder_read(path), text);
}

static struct stat status_of(const char *path) {
  struct stat status;
  assert_int_equal(lstat(path, &status), 0);
  return status;
}

static void assert_mode(const char *path, mode_t mode) {
  assert_int_equal(status_of(path).st_mode & 07777, mode);
}

static void link_to(const char *target, const char *name) {
  assert_int_equal(symlink(target, name), 0);
}

static void set_mode(const char *path, mode_t mode) {
  assert_int_equal(chmod(path, mode), 0);
}

static void start(AtomicFile *output, const char *path, const char *text) {
  OK(atomic_file_open(output, path, &error));
  fputs(text, output->file);
  fflush(output->file);
}

static bool save(const char *path, const char *text) {
  AtomicFile output;
  if (!atomic_file_open(&output, path, &error)) return false;
  fputs(text, output.file);
  return atomic_file_close(&output, true, &error);
}

static void must_save(const char *path) {
  OK(atomic_file_probe(path, &error) && save(path, "new"));
  assert_has(path, "new");
}

/* For a user who is not root, who may write everywhere, the path is neither written nor promised to
   be, and nothing is touched. */
static void refuse(const char *path, const char *reason) {
  const char *expected = text_printf("cannot write %s: %s", path, reason);
  const uid_t user = geteuid();
  if (user == 0) assert_int_equal(seteuid(NOBODY), 0);
  for (int probe = 0; probe < 2; probe++) {
    error.text[0] = '\0';
    if (probe ? atomic_file_probe(path, &error) : save(path, "new")) fail_msg("%s", path);
    assert_string_equal(error.text, expected);
  }
  if (user == 0) assert_int_equal(seteuid(user), 0);
}

/* ---- replacing ----------------------------------------------------------------------------- */

/* A hard link keeps the old content, as does whoever has the file open. */
IN_FOLDER(old_or_new) {
  AtomicFile output;
  folder_write("a", "old");
  assert_int_equal(link("a", "b"), 0);
  start(&output, "a", "new");
  assert_has("a", "old");
  OK(atomic_file_close(&output, true, &error));
  assert_has("a", "new");
  assert_has("b", "old");
  start(&output, "a", "newer");
  assert_false(atomic_file_close(&output, false, &error));
  assert_has("a", "new");
  assert_files(2);
}

/* ---- modes and owners ---------------------------------------------------------------------- */

/* The mode is kept; while it is written, nobody else reads what they may not read of the old one.
 */
IN_FOLDER(mode_is_kept) {
  AtomicFile output;
  struct stat status;
  folder_write("a", "old");
  foreach (mode, VALUES(mode_t, 0600, 0640, 0755, 0666)) {
    set_mode("a", *mode);
    start(&output, "a", "new");
    assert_int_equal(fstat(fileno(output.file), &status), 0);
    assert_int_equal(status.st_mode & 0777 & ~*mode, 0);
    assert_true(atomic_file_close(&output, true, &error));
    assert_mode("a", *mode);
  }
  const mode_t old = umask(027);
  must_save("b");
  umask(old);
  assert_mode("b", 0640);
}

/* A new owner gets the owner's permissions, and nobody gets more than before. */
IN_FOLDER(owners) {
  if (geteuid() != 0) skip_because("only root can give files away");
  static const char *const names[] = {"kept", "ours", "of another group"};
  foreach (name, names) {
    folder_write(*name, "old");
    set_mode(*name, 0662);
  }
  set_mode(folder, 0777);
  assert_int_equal(chown("kept", 1234, 4321), 0);
  assert_int_equal(chown("of another group", 0, 4321), 0);
  must_save("kept");
  assert_int_equal(status_of("kept").st_uid, 1234);
  assert_int_equal(status_of("kept").st_gid, 4321);
  for (int i = 1; i < 3; i++) {
    assert_int_equal(seteuid(NOBODY), 0); /* for whom the permissions count */
    const bool saved = save(names[i], "new");
    assert_int_equal(seteuid(0), 0);
    OK(saved);
    assert_int_equal(status_of(names[i]).st_uid, NOBODY);
    assert_int_not_equal(status_of(names[i]).st_gid, 4321);
    assert_mode(names[i], i == 1 ? 0662 : 0622); /* ours keeps its group */
  }
}

/* ---- what cannot be written ---------------------------------------------------------------- */

IN_FOLDER(read_only) {
  folder_write("a", "old");
  if (geteuid() == 0) assert_int_equal(chown("a", NOBODY, NOBODY), 0);
  set_mode("a", 0444);
  link_to("a", "link");
  set_mode(folder, 0777);
  refuse("a", "Permission denied");
  refuse("link", "Permission denied");
  assert_has("a", "old");
  set_mode("a", 0666);
  set_mode(folder, 0555);
  refuse("a", "Permission denied");
  refuse("new", "Permission denied");
  set_mode(folder, 0755);
  assert_files(2);
}

/* In a folder like /tmp nobody replaces the files of others: said before the run, not after it. */
IN_FOLDER(sticky_folder) {
  if (geteuid() != 0) skip_because("only root can give files away");
  folder_write("a", "old");
  set_mode("a", 0666);
  set_mode(folder, 0777 | S_ISVTX);
  refuse("a", "Operation not permitted");
  assert_has("a", "old");
  assert_files(1);
}

/* However many are open, all are whole, and whatever became of them, their places are free again.
 */
IN_FOLDER(many_at_a_time) {
  enum { MANY = 100 };
  static AtomicFile outputs[MANY];
  for (int round = 0; round < 3; round++) {
    int count = 0;
    while (count < MANY && atomic_file_open(&outputs[count], "a", &error)) count++;
    assert_in_range(count, 6, MANY - 1);
    assert_in(error.text, "Too many open files");
    assert_files(count + (round > 0));
    for (int i = 0; i < count; i++) fprintf(outputs[i].file, "number %d", i);
    for (int i = 0; i < count; i++) {
      assert_int_equal(atomic_file_close(&outputs[i], i % 2, &error), i % 2);
      if (i > 0) assert_has("a", text_printf("number %d", i - !(i % 2)));
    }
    assert_files(1);
  }
}

IN_FOLDER(a_probe_leaves_no_trace) {
  assert_true(atomic_file_probe("a", &error));
  assert_files(0);
  folder_write("a", "old");
  const struct stat before = status_of("a");
  link_to("new", "link");
  assert_true(atomic_file_probe("a", &error) && atomic_file_probe("link", &error));
  assert_true(before.st_ino == status_of("a").st_ino);
  assert_has("a", "old");
  assert_files(2);
}

/* ---- in place ------------------------------------------------------------------------------ */

static int print_around(void *unused, Error *why) {
  (void)unused, (void)why;
  const int file = open("a", O_WRONLY | O_CREAT, 0600);
  if (dup2(file, STDOUT_FILENO) < 0) return 2;
  printf("before ");
  const bool saved = save("/dev/fd/1", "rows ");
  printf("after");
  fflush(stdout);
  return !saved;
}

/* What was printed before stands before it. */
IN_FOLDER(standard_output) {
  assert_int_equal(process_do(print_around, NULL).status, 0);
  assert_has("a", "before rows after");
}

/* ---- ends of the process ------------------------------------------------------------------- */

/* What is done before it is not removed. */
static int die(void *saves_first, Error *why) {
  AtomicFile first, second;
  if (saves_first && !save("a", "new")) return 1;
  interrupt_catch(true);
  start(&first, "a", "newer");
  start(&second, "b", "newer");
  raise(SIGTERM);
  return why == NULL;
}

IN_FOLDER(signals) {
  folder_write("a", "old");
  for (int round = 0; round < 2; round++) {
    assert_int_equal(process_do(die, round ? &error : NULL).status, -SIGTERM);
    assert_has("a", round ? "new" : "old");
    assert_files(1);
  }
}

/* ---- the same file ------------------------------------------------------------------------- */

/* Makes a.csv under other names, links to a file yet to come, and what is not a file. */
static void make_names(void) {
  static const char *const links[][2] = {{"a.csv", "soft.csv"},      {"soft.csv", "softer.csv"},
                                         {"../a.csv", "sub/up.csv"}, {"sub", "other-sub"},
                                         {"sub/new", "to-new"},      {"to-new", "to-to-new"},
                                         {"/dev/null", "null"},      {"circle", "circle"}};
  folder_write("a.csv", "");
  folder_write("b.csv", "");
  assert_int_equal(link("a.csv", "hard.csv"), 0);
  assert_int_equal(mkdir("sub", 0700), 0);
  foreach (link, links) link_to((*link)[0], (*link)[1]);
  assert_int_equal(mkfifo("pipe", 0600), 0);
}

/* Compares the two one after the other and the other way round; "w" of `modes`: it is written. */
static bool same(const char *a, const char *b, const char *modes) {
  const NamedFile files[] = {{"first", a, modes[0] == 'w'}, {"second", b, modes[1] == 'w'}};
  const NamedFile swapped[] = {files[1], files[0]};
  const bool is_same = !same_file_check(files, 2, &error);
  assert_int_equal(!same_file_check(swapped, 2, NULL), is_same);
  return is_same;
}

/* All names are `one` in turn, if one of the two is written, and none of `others`. */
static void assert_names(const char *one, const char *const *names, const char *const *others) {
  for (; *names; names++) {
    if (!same(one, *names, "rw")) fail_msg("%s is not %s", *names, one);
    assert_true(same(*names, one, "ww"));
    assert_false(same(one, *names, "rr"));
    for (const char *const *other = others; *other; other++)
      assert_false(same(*other, *names, "rw") || same(*other, *names, "ww"));
  }
}

IN_FOLDER(names_of_a_file) {
  make_names();
  assert_names("a.csv",
               (const char *const[]){"a.csv", "./a.csv", "sub/../a.csv", "hard.csv", "soft.csv",
                                     "softer.csv", "sub/up.csv", "sub//up.csv",
                                     text_printf("%s/a.csv", folder), NULL},
               (const char *const[]){"b.csv", NULL});
  assert_names("sub/new", /* which is yet to come */
               (const char *const[]){"sub/new", "./sub/new", "other-sub/new", "sub/../sub/new",
                                     "to-new", "to-to-new", NULL},
               (const char *const[]){"new", "sub/newer", "a.csv", NULL});
  assert_int_not_equal(access("sub/new", F_OK), 0);
  /* whoever opens these says what is wrong with them */
  foreach (path, TEXTS("circle", "a.csv/new", "none/new", "/dev/fd/9999", "", NULL))
    assert_false(same(*path, *path, "ww"));
}

IN_FOLDER(devices_and_pipes) {
  make_names();
  assert_false(same("/dev/null", "/dev/null", "rw") || same("/dev/null", "null", "ww"));
  assert_true(same("pipe", "pipe", "rw") && same("pipe", "./pipe", "ww"));
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_true(same(text_printf("/dev/fd/%d", ends[0]), text_printf("/dev/fd/%d", ends[1]),
                   "rw")); /* the process would wait for itself */
  close(ends[0]);
  close(ends[1]);
}

static int compare_streams(void *unused, Error *why) {
  (void)unused, (void)why;
  const int file = open("a.csv", O_RDWR | O_APPEND), null = open("/dev/null", O_RDWR);
  dup2(file, STDIN_FILENO);
  dup2(file, STDOUT_FILENO);
  const bool all = same("-", "hard.csv", "rw") && same("a.csv", "-", "rw") &&
                   same("/dev/stdin", "a.csv", "rw") && same("a.csv", "/dev/stdout", "rw") &&
                   same("-", "/dev/fd/1", "rw") && same("-", "/dev/stdout", "ww");
  const bool none = same("-", "b.csv", "rw") || same("-", "b.csv", "wr");
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  return !all || none || same("-", "-", "rw") || same("-", "/dev/stdout", "ww");
}

/* Standard input and output may be any file. */
IN_FOLDER(streams) {
  make_names();
  assert_int_equal(process_do(compare_streams, NULL).status, 0);
}

IN_FOLDER(the_sentence) {
  make_names();
  const NamedFile files[] = {{"config", "b.csv", false}, {"train", "a.csv", false},
                             {"test", "a.csv", false},   {"save", "", true},
                             {"log", "run", true},       {"plot", "sub/up.csv", true}};
  assert_true(same_file_check(files, 5, &error));
  assert_false(same_file_check(files, 6, &error));
  assert_string_equal(error.text, "--train a.csv and --plot sub/up.csv are the same file: give one "
                                  "of them another name");
}
