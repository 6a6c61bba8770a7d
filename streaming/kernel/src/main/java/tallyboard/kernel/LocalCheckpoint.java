package tallyboard.kernel;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of a checkpoint on a local path, written with Java's own calls.
 *
 * <p>Hadoop's local file system starts a process for a file's permissions, and while a batch is
 * committed nothing is answered. What Spark asks of a manager holds: a name shows a whole file or
 * none, whenever a process is killed; and where nothing may be overwritten, a name that exists
 * stays as it is, also when two write it at once. A file reaches the disk before it has its name,
 * so that this holds when the machine loses its power, too.
 *
 * <p>Files get no checksums beside them. Those that Hadoop's own manager wrote go with their files,
 * so that either manager reads what the other has written. On any other file system, files are
 * made by the manager that Spark would choose, in an object store by ObjectCheckpoint.
 */
public final class LocalCheckpoint extends FileSystemBasedCheckpointFileManager {
  private static final int BUFFER = 1 << 16;
  private static final String SETTING = "spark.sql.streaming.checkpointFileManagerClass";

  /** Spark's manager for where files are not local, else null. */
  private final CheckpointFileManager elsewhere;

  /** Spark calls it. */
  public LocalCheckpoint(Path path, Configuration configuration) {
    super(path, configuration);
    elsewhere = fs() instanceof LocalFileSystem ? null : sparks(path, configuration);
  }

  private static CheckpointFileManager sparks(Path path, Configuration configuration) {
    if (ObjectCheckpoint.SCHEME.equals(path.toUri().getScheme())) {
      return new ObjectCheckpoint(path, configuration);
    }
    Configuration plain = new Configuration(configuration);
    plain.unset(SETTING);
    return CheckpointFileManager.create(path, plain);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    if (elsewhere != null) return elsewhere.createAtomic(path, overwrite);
    try {
      return new Draft(((LocalFileSystem) fs()).pathToFile(path), overwrite);
    } catch (IOException failed) {
      throw LocalCheckpoint.<RuntimeException>asItIs(failed);
    }
  }

  /** Scala declares no exceptions, and Spark looks at which one it is. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E asItIs(Throwable failed) throws E {
    throw (E) failed;
  }

  private static File checksum(File file) {
    return new File(file.getParentFile(), "." + file.getName() + ".crc");
  }

  /** A file that has its name once it is closed. */
  private static final class Draft extends CancellableFSDataOutputStream {
    private final File target;
    private final Pages pages;
    private final boolean overwrite;
    private boolean over;

    Draft(File target, boolean overwrite) throws IOException {
      this(target, overwrite, new Pages(target));
    }

    private Draft(File target, boolean overwrite, Pages pages) {
      super(pages);
      this.target = target;
      this.overwrite = overwrite;
      this.pages = pages;
    }

    @Override
    public synchronized void close() throws IOException {
      if (over) return;
      over = true;
      try {
        pages.finish();
        publish();
      } finally {
        Files.deleteIfExists(pages.file.toPath());
      }
    }

    private void publish() throws IOException {
      if (overwrite) {
        // First, so that a checksum never stands beside a file that it is not of.
        Files.deleteIfExists(checksum(target).toPath());
        Files.move(pages.file.toPath(), target.toPath(), StandardCopyOption.ATOMIC_MOVE);
        return;
      }
      try {
        Files.createLink(target.toPath(), pages.file.toPath());
      } catch (java.nio.file.FileAlreadyExistsException taken) {
        throw new FileAlreadyExistsException(target + " exists, and is not to be overwritten");
      }
    }

    @Override
    public synchronized void cancel() {
      if (over) return;
      over = true;
      pages.discard();
    }
  }

  /** What is written, below a name that Spark passes over. */
  private static final class Pages extends OutputStream {
    private final File file;
    private final FileChannel channel;
    private final OutputStream buffered;

    Pages(File target) throws IOException {
      file = new File(target.getParentFile(),
          "." + target.getName() + "." + UUID.randomUUID() + ".tmp");
      channel = FileChannel.open(file.toPath(), StandardOpenOption.CREATE_NEW,
          StandardOpenOption.WRITE);
      buffered = new BufferedOutputStream(Channels.newOutputStream(channel), BUFFER);
    }

    @Override
    public void write(int octet) throws IOException {
      buffered.write(octet);
    }

    @Override
    public void write(byte[] octets, int from, int length) throws IOException {
      buffered.write(octets, from, length);
    }

    @Override
    public void flush() throws IOException {
      buffered.flush();
    }

    void finish() throws IOException {
      try (channel) {
        buffered.flush();
        channel.force(false);
      }
    }

    void discard() {
      try (channel) {
        Files.deleteIfExists(file.toPath());
      } catch (IOException left) {
        // What is left has a name that nobody reads.
      }
    }
  }
}
