package tallyboard.kernel;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of a checkpoint in an object store, which has no rename: an object is there, whole, once
 * its upload is complete, and not at all before. Where nothing may be overwritten, the store itself
 * refuses the second of two uploads.
 */
public final class ObjectCheckpoint extends FileSystemBasedCheckpointFileManager {
  static final String SCHEME = "s3a";

  /** Hadoop's name for an upload that the store refuses where there is an object already. */
  private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

  /** Spark calls it. */
  public ObjectCheckpoint(Path path, Configuration configuration) {
    super(path, configuration);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    try {
      return new Upload(path, begin(path, overwrite));
    } catch (IOException failed) {
      throw ObjectCheckpoint.<RuntimeException>asItIs(failed);
    }
  }

  private FSDataOutputStream begin(Path path, boolean overwrite) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder =
        fs().createFile(path).recursive().overwrite(overwrite);
    if (!overwrite) builder.must(CONDITIONAL, true);
    return builder.build();
  }

  /** Scala declares no exceptions, and Spark looks at which one it is. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E asItIs(Throwable failed) throws E {
    throw (E) failed;
  }

  /** An object that has its name once it is closed. */
  private static final class Upload extends CancellableFSDataOutputStream {
    private final Path path;
    private final FSDataOutputStream out;
    private boolean over;

    Upload(Path path, FSDataOutputStream out) {
      super(out);
      this.path = path;
      this.out = out;
    }

    @Override
    public synchronized void close() throws IOException {
      if (over) return;
      over = true;
      try {
        out.close();
      } catch (IOException failed) {
        if (!refused(failed)) throw failed;
        throw new FileAlreadyExistsException(path + " exists, and is not to be overwritten");
      }
    }

    /** Whether the store has refused it, as there is an object already: HTTP's 412 or 409. */
    private static boolean refused(Throwable failed) {
      for (Throwable each = failed; each != null; each = each.getCause()) {
        String text = String.valueOf(each.getMessage());
        if (text.contains("Status Code: 412") || text.contains("Status Code: 409")) return true;
      }
      return false;
    }

    @Override
    public synchronized void cancel() {
      if (over) return;
      over = true;
      out.abort();
    }
  }
}
